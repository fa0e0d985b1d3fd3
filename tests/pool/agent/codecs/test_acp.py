"""ACP frames two ways: what we say passes the official schema, what agents say becomes events and never an
exception."""

from typing import Any

import pytest

from ostler.pool.agent.codec import AgentCall, AgentNotification, BadReply, PermissionWanted, RefusedRequest
from ostler.pool.agent.codecs.acp import AcpCodec
from ostler.pool.events import (
    Finished,
    ModeChanged,
    Other,
    Plan,
    PlanStep,
    StopReason,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    ToolUpdated,
    Usage,
    UserText,
)
from ostler.pool.order import SeatOrder
from ostler.pool.permission import allow
from ostler.pool.prompt import AudioPart, FilePart, ImagePart, LinkPart, ResourcePart, TextPart
from ostler.pool.provider import ToolChannel
from ostler.wire.rpc import METHOD_NOT_FOUND
from tests.support.acp_oracle import check_client_frame
from tests.support.tickets import PlainTicket

SESSION = "s1"
HELLO = {
    "protocolVersion": 1,
    "agentInfo": {"name": "gemini-cli", "version": "0.61.0"},
    "agentCapabilities": {"loadSession": True, "promptCapabilities": {"image": True, "embeddedContext": True}},
}


def tell(codec: AcpCodec, **update: Any) -> Any:
    told = codec.session_update("session/update", {"sessionId": SESSION, "update": update})
    assert told is not None
    assert told[0] == SESSION
    return told[1]


def sound(said: AgentCall | AgentNotification) -> None:
    frame = {"jsonrpc": "2.0", "method": said.method, "params": said.params}
    check_client_frame(frame if isinstance(said, AgentNotification) else {**frame, "id": 1})


def test_every_request_we_make_is_sound() -> None:
    codec, order = AcpCodec(), SeatOrder("/work", allow, ticket=PlainTicket("secret"), meta={"a": 1})
    parts = [
        TextPart("t"),
        ImagePart.of(b"x", "image/png"),
        AudioPart("eA==", "audio/wav"),
        ResourcePart("file:///a", "text", "text/plain"),
        FilePart("file:///b", "eA=="),
        LinkPart("file:///c", "c"),
    ]
    said = [
        codec.hello(),
        codec.open(order),
        codec.open(SeatOrder("/work", allow)),
        codec.load(SESSION, order),
        *codec.set_mode(SESSION, "yolo"),
        codec.prompt(SESSION, parts),
        codec.cancel(SESSION),
        *codec.close(SESSION, offered=True),
    ]
    for each in said:
        assert each is not None
        sound(each)


def test_the_token_travels_in_the_environment_only() -> None:
    call = AcpCodec().open(SeatOrder("/work", allow, ticket=PlainTicket("secret")))
    (server,) = call.params["mcpServers"]
    assert server["env"] == [{"name": "TOKEN", "value": "secret"}]
    assert "secret" not in [server["command"], *server["args"]]


def test_an_http_server_is_named_with_its_header() -> None:
    call = AcpCodec(ToolChannel.HTTP).open(SeatOrder("/work", allow, ticket=PlainTicket("secret")))
    sound(call)
    header = {"name": "Authorization", "value": "Bearer secret"}
    assert call.params["mcpServers"] == [
        {"type": "http", "name": "gw", "url": "http://127.0.0.1:1/mcp", "headers": [header]}
    ]


def test_a_server_on_the_pipe_is_named_as_it_was_declared() -> None:
    declared = {"type": "acp", "name": "gw", "serverId": "id"}
    codec = AcpCodec(ToolChannel.ACP)
    call = codec.load(SESSION, SeatOrder("/work", allow, ticket=PlainTicket("secret"), declared=declared))
    sound(call)
    assert call.params["mcpServers"] == [declared]
    assert codec.carries("mcp/connect")
    assert not codec.carries("session/update")
    assert not AcpCodec().carries("mcp/connect")


@pytest.mark.parametrize(
    ("offered", "channels"),
    [
        ({}, set()),
        ({"http": True, "sse": True}, {ToolChannel.HTTP}),
        ({"acp": True, "http": False}, {ToolChannel.ACP}),
        ({"http": "yes", "acp": {}}, set()),
        ([], set()),
    ],
)
def test_only_what_an_agent_says_it_takes_is_offered_to_it(offered: Any, channels: set[ToolChannel]) -> None:
    info = AcpCodec().welcomed({**HELLO, "agentCapabilities": {"mcpCapabilities": offered}})
    assert info.channels == {ToolChannel.RELAY} | channels


def test_servers_are_listed_even_when_there_are_none() -> None:
    assert AcpCodec().open(SeatOrder("/work", allow)).params["mcpServers"] == []


@pytest.mark.parametrize(
    ("update", "event"),
    [
        ({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}, Text("a")),
        ({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "a"}}, Thought("a")),
        ({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "a"}}, UserText("a")),
        (
            {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "kind": "edit", "rawInput": {"a": 1}},
            ToolStarted("c", "T", "edit", {"a": 1}),
        ),
        (
            {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"},
            ToolUpdated("c", status=ToolStatus.RUNNING),
        ),
        (
            {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed", "rawOutput": "no"},
            ToolEnded("c", ToolStatus.FAILED, "no"),
        ),
        (
            {"sessionUpdate": "plan", "entries": [{"content": "x", "priority": "high", "status": "pending"}]},
            Plan([PlanStep("x", "pending", "high")]),
        ),
        ({"sessionUpdate": "current_mode_update", "currentModeId": "yolo"}, ModeChanged("yolo")),
        ({"sessionUpdate": "usage_update", "used": 5, "size": 9}, Usage(context_used=5, context_size=9)),
    ],
)
def test_each_kind_of_update_has_its_event(update: dict[str, Any], event: object) -> None:
    assert tell(AcpCodec(), **update) == event


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "kind_of_tomorrow", "x": 1},
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": None},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 5}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "", "mimeType": "a/b"}},
        {"sessionUpdate": "tool_call", "title": "no id"},
        {"sessionUpdate": "plan", "entries": [7]},
        {"sessionUpdate": ["not", "a", "text"]},
        {"no": "kind"},
    ],
)
def test_what_it_cannot_read_is_passed_on_whole(update: dict[str, Any]) -> None:
    event = tell(AcpCodec(), **update)
    assert isinstance(event, Other)
    assert event.raw == update


@pytest.mark.parametrize("params", [{}, {"sessionId": 7, "update": {}}, {"update": {"sessionUpdate": "plan"}}])
def test_w03b_an_update_without_a_session_belongs_to_nobody(params: dict[str, Any]) -> None:
    assert AcpCodec().session_update("session/update", params) is None


def test_an_update_that_is_no_object_stays_in_its_session() -> None:
    told = AcpCodec().session_update("session/update", {"sessionId": SESSION, "update": "?"})
    assert told == (SESSION, Other("malformed", {"update": "?"}))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("end_turn", StopReason.DONE),
        ("max_tokens", StopReason.LIMIT),
        ("max_turn_requests", StopReason.LIMIT),
        ("refusal", StopReason.REFUSED),
        ("cancelled", StopReason.CANCELLED),
    ],
)
def test_stop_reasons(said: str, reason: StopReason) -> None:
    usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
    finished = AcpCodec().replied(SESSION, {"stopReason": said, "usage": usage})
    assert finished == Finished(reason, "", Usage(1, 2, 3))


@pytest.mark.parametrize("result", [None, {}, {"stopReason": "of_tomorrow"}, {"stopReason": ["?"]}, "done"])
def test_an_unknown_stop_reason_ends_the_turn_all_the_same(result: Any) -> None:
    finished = AcpCodec().replied(SESSION, result)
    assert finished is not None
    assert finished.reason is StopReason.DONE
    assert "unknown stop reason" in finished.detail


def test_the_handshake_is_read() -> None:
    info = AcpCodec().welcomed(HELLO)
    assert (info.name, info.version, info.loads, info.closes) == ("gemini-cli", "0.61.0", True, False)
    assert (info.prompt.image, info.prompt.audio, info.prompt.embedded) == (True, False, True)


@pytest.mark.parametrize("result", [None, [], {}, {"protocolVersion": 2}, {"protocolVersion": "1"}])
def test_another_protocol_is_refused(result: Any) -> None:
    with pytest.raises(BadReply):
        AcpCodec().welcomed(result)


@pytest.mark.parametrize("result", [None, {}, {"sessionId": ""}, {"sessionId": 5}])
def test_an_open_without_a_session_is_refused(result: Any) -> None:
    with pytest.raises(BadReply):
        AcpCodec().opened(result)


def test_a_load_may_be_answered_with_nothing() -> None:
    assert AcpCodec().opened(None, SESSION).session_id == SESSION


def test_w39a_permission_requests_and_their_answers() -> None:
    codec = AcpCodec()
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"bad": 1}]
    wanted = codec.wanted(
        "session/request_permission",
        {"sessionId": SESSION, "toolCall": {"toolCallId": "c", "title": "rm"}, "options": options},
    )
    assert isinstance(wanted, PermissionWanted)
    assert (wanted.session_id, wanted.asked.title, [each.id for each in wanted.asked.options]) == (SESSION, "rm", ["y"])
    for answer in (codec.permission_answer(wanted, "y"), codec.permission_answer(wanted, None)):
        check_client_frame({"jsonrpc": "2.0", "id": 4, "result": answer}, {4: "session/request_permission"})


def test_two_permission_requests_never_share_an_id() -> None:
    codec = AcpCodec()
    params = {"sessionId": SESSION, "toolCall": {"toolCallId": "same"}, "options": [{"optionId": "y"}]}
    first, second = (codec.wanted("session/request_permission", params) for _ in range(2))
    assert isinstance(first, PermissionWanted)
    assert isinstance(second, PermissionWanted)
    assert first.asked.id != second.asked.id


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "anything/else"])
def test_what_we_did_not_offer_is_refused(method: str) -> None:
    wanted = AcpCodec().wanted(method, {})
    assert isinstance(wanted, RefusedRequest)
    assert wanted.fault.code == METHOD_NOT_FOUND


@pytest.mark.parametrize("params", [{}, {"sessionId": SESSION}, {"sessionId": SESSION, "options": [{}]}])
def test_a_permission_request_without_options_is_refused(params: dict[str, Any]) -> None:
    assert isinstance(AcpCodec().wanted("session/request_permission", params), RefusedRequest)


def test_m05_a_close_that_was_not_offered_is_not_asked_for() -> None:
    assert list(AcpCodec().close(SESSION, offered=False)) == []
