"""codex app-server frames two ways, by the fields that its own schema names."""

from typing import Any

import pytest

from ostler.pool.agent.codec import AgentCall, BadReply, PermissionWanted, RefusedRequest, ToolWanted
from ostler.pool.agent.codecs.codex_app_server import CodexCodec
from ostler.pool.events import (
    Finished,
    ModelChanged,
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
from ostler.pool.permission_facts import details
from ostler.pool.prompt import FilePart, ImagePart, LinkPart, ResourcePart, TextPart
from ostler.pool.provider import Approval, Level, ToolChannel
from ostler.wire.rpc import METHOD_NOT_FOUND, RpcFault
from tests.support.tickets import Answer, PlainTicket

T, U = "thread-1", "turn-1"


def codec(
    *, approval: Approval = Approval.AUTO, channel: ToolChannel = ToolChannel.DYNAMIC_TOOLS, model: str | None = None
) -> CodexCodec:
    made = CodexCodec(model, approval, channel)
    made.opened({"thread": {"id": T}, "model": "m"})
    return made


def running(turn: str = U) -> CodexCodec:
    made = codec()
    made.prompt(T, [TextPart("x")])
    assert made.replied(T, {"turn": {"id": turn}}) is None
    return made


def tell(made: CodexCodec, method: str, **params: Any) -> Any:
    told = made.session_update(method, {"threadId": T, "turnId": U, **params})
    return None if told is None else told[1]


def test_the_handshake() -> None:
    made = codec()
    assert made.hello().params["capabilities"] == {"experimentalApi": True}
    assert [notice.method for notice in made.greetings()] == ["initialized"]
    info = made.welcomed({"userAgent": "ostler/0.169.0 (Debian)"})
    assert (info.name, info.version, info.loads, info.closes) == ("codex", "0.169.0", True, True)


@pytest.mark.parametrize("result", [None, {}, {"protocolVersion": 1}, {"userAgent": 5}])
def test_another_protocol_is_refused(result: Any) -> None:
    with pytest.raises(BadReply):
        codec().welcomed(result)


def test_tools_go_in_with_the_thread_and_no_process_is_named() -> None:
    call = codec(model="gpt").open(SeatOrder("/srv", allow, ticket=PlainTicket("secret")))
    assert call.method == "thread/start"
    assert call.params["model"] == "gpt"
    assert call.params["dynamicTools"] == [
        {"type": "function", "name": "echo", "description": "", "inputSchema": {"type": "object"}}
    ]
    assert "config" not in call.params


def test_the_relay_is_required_or_it_may_be_left_out_silently() -> None:
    call = codec(channel=ToolChannel.RELAY).open(SeatOrder("/srv", allow, ticket=PlainTicket("secret")))
    server = call.params["config"]["mcp_servers.gw"]
    assert server["required"] is True
    assert server["env"] == {"TOKEN": "secret"}
    assert "dynamicTools" not in call.params


@pytest.mark.parametrize("approval", list(Approval))
def test_never_together_with_read_only_would_hide_every_tool(approval: Approval) -> None:
    params = codec(approval=approval).open(SeatOrder("/srv", allow)).params
    assert (params.get("approvalPolicy"), params.get("sandbox")) != ("never", "read-only")


def test_parts_of_a_prompt() -> None:
    parts = [
        TextPart("t"),
        ImagePart("eA==", "image/png"),
        ResourcePart("file:///a", "body"),
        FilePart("file:///b", "eA==", "x/y"),
        LinkPart("file:///c", "c"),
    ]
    call = codec().prompt(T, parts)
    assert call.params["threadId"] == T
    assert [item["type"] for item in call.params["input"]] == ["text", "image", "text", "text", "text"]
    assert call.params["input"][1]["url"] == "data:image/png;base64,eA=="


@pytest.mark.parametrize(
    ("method", "params", "event"),
    [
        ("item/agentMessage/delta", {"itemId": "i", "delta": "a"}, Text("a")),
        ("item/reasoning/textDelta", {"itemId": "i", "delta": "a"}, Thought("a")),
        ("item/reasoning/summaryTextDelta", {"itemId": "i", "delta": "a"}, Thought("a")),
        (
            "item/started",
            {"item": {"type": "commandExecution", "id": "i", "command": "ls", "cwd": "/", "status": "inProgress"}},
            ToolStarted("i", "ls", "execute", {"command": "ls", "cwd": "/"}, ToolStatus.RUNNING),
        ),
        (
            "item/completed",
            {"item": {"type": "commandExecution", "id": "i", "aggregatedOutput": "x", "status": "declined"}},
            ToolEnded("i", ToolStatus.FAILED, "x"),
        ),
        (
            "item/commandExecution/outputDelta",
            {"itemId": "i", "delta": "x"},
            ToolUpdated("i", status=ToolStatus.RUNNING, output="x"),
        ),
        (
            "turn/plan/updated",
            {"plan": [{"step": "a", "status": "inProgress"}]},
            Plan([PlanStep("a", "in_progress")]),
        ),
        ("model/rerouted", {"fromModel": "a", "toModel": "b", "reason": "r"}, ModelChanged("b")),
        (
            "thread/tokenUsage/updated",
            {
                "tokenUsage": {
                    "last": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
                    "total": {},
                    "modelContextWindow": 9,
                }
            },
            Usage(1, 2, 3, 3, 9),
        ),
    ],
)
def test_each_notification_has_its_event(method: str, params: dict[str, Any], event: object) -> None:
    assert tell(running(), method, **params) == event


@pytest.mark.parametrize("method", ["item/started", "turn/plan/updated", "item/agentMessage/delta", "of/tomorrow"])
def test_what_it_cannot_read_is_passed_on_whole(method: str) -> None:
    event = tell(running(), method, strange=1)
    assert isinstance(event, Other)
    assert event.kind == method


def test_an_answer_that_came_in_pieces_is_not_repeated() -> None:
    made = running()
    tell(made, "item/agentMessage/delta", itemId="i", delta="a")
    whole = {"type": "agentMessage", "id": "i", "text": "a"}
    assert isinstance(tell(made, "item/completed", item=whole), Other)


def test_an_answer_that_came_whole_is_not_lost() -> None:
    whole = {"type": "agentMessage", "id": "i", "text": "a"}
    assert tell(running(), "item/completed", item=whole) == Text("a")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("completed", StopReason.DONE),
        ("interrupted", StopReason.CANCELLED),
        ("failed", StopReason.FAILED),
        ("odd", StopReason.FAILED),
    ],
)
def test_the_end_of_a_turn(status: str, reason: StopReason) -> None:
    turn = {"id": U, "status": status, "items": [], "error": {"message": "why"}}
    told = running().session_update("turn/completed", {"threadId": T, "turn": turn})
    assert told == (T, Finished(reason, "why"))


def test_w40c_pieces_of_an_earlier_turn_are_dropped_and_counted() -> None:
    made = running()
    made.session_update("turn/completed", {"threadId": T, "turn": {"id": U, "status": "interrupted"}})
    made.prompt(T, [TextPart("next")])
    assert tell(made, "item/agentMessage/delta", itemId="i", delta="late") is None
    made.replied(T, {"turn": {"id": "turn-2"}})
    assert tell(made, "item/agentMessage/delta", itemId="i", delta="late") is None
    assert made.stale == 2


def test_w40c_a_late_end_of_the_last_turn_does_not_end_the_next() -> None:
    made = running()
    end = {"threadId": T, "turn": {"id": U, "status": "completed"}}
    made.session_update("turn/completed", end)
    made.prompt(T, [TextPart("next")])
    told = made.session_update("turn/completed", end)
    assert told is not None
    assert isinstance(told[1], Other)


def test_m04_a_cancel_waits_until_the_turn_runs() -> None:
    made = codec()
    made.prompt(T, [TextPart("x")])
    assert made.cancel(T) is None
    made.replied(T, {"turn": {"id": U}})
    assert made.cancel(T) is None, "named but not running, it is answered: no active turn to interrupt"
    made.session_update("turn/started", {"threadId": T, "turn": {"id": U}})
    assert made.cancel(T) == AgentCall("turn/interrupt", {"threadId": T, "turnId": U})


def test_a_turn_without_a_name_has_failed() -> None:
    made = codec()
    made.prompt(T, [TextPart("x")])
    finished = made.replied(T, {})
    assert finished is not None
    assert finished.reason is StopReason.FAILED


def test_a_refused_turn_leaves_nothing_to_interrupt() -> None:
    made = running()
    made.failed(T, RpcFault(-32600, "no"))
    assert made.cancel(T) is None


def test_m09_a_thread_ends_by_both_verbs() -> None:
    assert [call.method for call in codec().close(T, offered=True)] == ["thread/unsubscribe", "thread/archive"]


def test_an_archived_thread_is_unearthed_before_it_is_loaded() -> None:
    made = codec()
    assert [call.method for call in made.unarchive(T)] == ["thread/unarchive"]
    load = made.load(T, SeatOrder("/srv", allow))
    assert (load.method, load.params["threadId"]) == ("thread/resume", T)


def test_w03b_a_thread_we_did_not_open_reaches_nobody_as_ours() -> None:
    made = codec()
    assert made.session_update("item/agentMessage/delta", {"threadId": "other", "delta": "x", "itemId": "i"}) == (
        "other",
        Other("item/agentMessage/delta", {"threadId": "other", "delta": "x", "itemId": "i"}),
    )
    assert made.session_update("account/updated", {}) is None


def test_tool_calls_name_their_thread() -> None:
    params = {"threadId": T, "turnId": U, "callId": "c", "tool": "echo", "arguments": {"a": 1}}
    assert codec().wanted("item/tool/call", params) == ToolWanted(T, "c", "echo", {"a": 1})


def test_tool_answers() -> None:
    blocks = [
        {"type": "text", "text": "t"},
        {"type": "image", "data": "eA==", "mimeType": "image/png"},
        {"type": "audio", "data": "eA==", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "u", "name": "n"},
    ]
    answer = codec().tool_answer(Answer(blocks, is_error=True))
    assert answer["success"] is False
    assert [item["type"] for item in answer["contentItems"]] == ["inputText", "inputImage", "inputAudio", "inputText"]


@pytest.mark.parametrize(
    ("method", "option", "answer"),
    [
        ("item/commandExecution/requestApproval", "accept", {"decision": "accept"}),
        ("item/fileChange/requestApproval", "decline", {"decision": "decline"}),
        ("item/fileChange/requestApproval", None, {"decision": "cancel"}),
        ("mcpServer/elicitation/request", "accept", {"action": "accept", "content": {}}),
        ("mcpServer/elicitation/request", "decline", {"action": "decline"}),
        ("mcpServer/elicitation/request", None, {"action": "cancel"}),
        (
            "item/permissions/requestApproval",
            "accept",
            {"permissions": {"network": {}}, "scope": "turn"},
        ),
        ("item/permissions/requestApproval", "decline", {"permissions": {}}),
    ],
)
def test_w39a_each_approval_has_its_own_form(method: str, option: str | None, answer: dict[str, Any]) -> None:
    made = codec()
    wanted = made.wanted(method, {"threadId": T, "turnId": U, "permissions": {"network": {}}, "reason": "r"})
    assert isinstance(wanted, PermissionWanted)
    assert made.permission_answer(wanted, option) == answer


def test_n43_a_request_says_which_files_or_which_command_it_is_about() -> None:
    made = codec()
    made.opened({"thread": {"id": T}})
    change = {"path": "/srv/a", "kind": {"type": "add"}, "diff": "+x"}
    item = {"type": "fileChange", "id": "i1", "changes": [change], "status": "inProgress"}
    made.session_update("item/started", {"threadId": T, "item": item})
    wanted = made.wanted("item/fileChange/requestApproval", {"threadId": T, "turnId": U, "itemId": "i1"})
    assert isinstance(wanted, PermissionWanted)
    assert wanted.asked.title == "change /srv/a"
    assert details(wanted.asked) == {"kind": "edit", "paths": ["/srv/a"], "diff": "/srv/a\n+x"}
    asked = {"threadId": T, "turnId": U, "itemId": "i2", "command": "rm x", "cwd": "/srv", "reason": "tidy up"}
    command = made.wanted("item/commandExecution/requestApproval", asked)
    assert isinstance(command, PermissionWanted)
    assert command.asked.title == "rm x"
    assert details(command.asked) == {"kind": "execute", "command": "rm x", "cwd": "/srv", "reason": "tidy up"}
    made.session_update("item/completed", {"threadId": T, "item": {**item, "status": "completed"}})
    later = made.wanted("item/fileChange/requestApproval", {"threadId": T, "turnId": U, "itemId": "i1"})
    assert isinstance(later, PermissionWanted)
    assert details(later.asked) == {"kind": "edit"}


@pytest.mark.parametrize("approval", list(Approval))
def test_n43_each_turn_says_what_it_may_do_where_the_process_asks(approval: Approval) -> None:
    made = codec(approval=approval)
    sandboxes = {}
    for level in Level:
        params = made.prompt(T, [TextPart("t")], level).params
        sandboxes[level] = params.get("sandboxPolicy", {}).get("type")
        assert (params.get("approvalPolicy"), sandboxes[level]) != ("never", "readOnly")
    told = {
        Level.DENY: "readOnly",
        Level.ASK: "readOnly",
        Level.WORKSPACE: "workspaceWrite",
        Level.AUTO: "dangerFullAccess",
    }
    assert sandboxes == (told if approval is Approval.ASK else dict.fromkeys(Level))
    assert "sandboxPolicy" not in made.prompt(T, [TextPart("t")]).params


@pytest.mark.parametrize("method", ["account/chatgptAuthTokens/refresh", "execCommandApproval", "x"])
def test_what_we_did_not_offer_is_refused(method: str) -> None:
    wanted = codec().wanted(method, {"threadId": T})
    assert isinstance(wanted, RefusedRequest)
    assert wanted.fault.code == METHOD_NOT_FOUND


@pytest.mark.parametrize("params", [{}, {"threadId": T}, {"threadId": T, "callId": "c"}])
def test_a_tool_call_that_names_nothing_is_refused(params: dict[str, Any]) -> None:
    assert isinstance(codec().wanted("item/tool/call", params), RefusedRequest)


def test_the_end_of_a_resumed_thread_is_asked_for_and_read() -> None:
    made = codec()
    newest = {"limit": 1, "sortDirection": "desc", "itemsView": "full"}
    assert made.recent_turns(T, 1) == (AgentCall("thread/turns/list", {"threadId": T, **newest}),)
    items = [
        {"type": "userMessage", "id": "1", "content": [{"type": "text", "text": "hi"}, {"type": "image", "url": "x"}]},
        {"type": "commandExecution", "id": "2", "command": "ls", "status": "completed"},
        {"type": "contextCompaction", "id": "3"},
        {"type": "commandExecution", "id": "odd"},
        {"type": []},
        None,
        {"type": "agentMessage", "id": "4", "text": "well"},
    ]
    asked, called, answered = made.replayed_events({"data": [{"id": U, "items": items}]})
    assert (asked, answered) == (UserText("hi"), Text("well"))
    assert isinstance(called, ToolStarted)
    assert made.replayed_events({"data": []}) == []


@pytest.mark.parametrize(
    "result",
    [None, {}, {"data": 1}, {"data": [{}]}, {"data": [None]}, {"data": [{"items": 1}]}],
)
def test_turns_of_another_shape_are_refused(result: object) -> None:
    with pytest.raises(BadReply):
        codec().replayed_events(result)
