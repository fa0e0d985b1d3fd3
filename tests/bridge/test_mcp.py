"""The MCP core: frames in, frames out."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.bridge import hello
from ostler.bridge.binding import Binding, BindingState, BoundCall
from ostler.bridge.bindings import Bindings, Compromised, RejectReason, RelayPeer
from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.errors import CallRefused, DuplicateTool, TokenCollision, ToolMalformed
from ostler.bridge.mcp import (
    HANDSHAKE_VERSIONS,
    STATELESS_VERSION,
    VERSION_KEY,
    BeginCall,
    Effect,
    End,
    McpSession,
    SendFrame,
)
from ostler.bridge.toolbox import Toolboxes, toolbox
from ostler.wire.redaction import excerpt, redacted
from tests.support.relays import tool

MODERN = {VERSION_KEY: STATELESS_VERSION}


class Nowhere:
    def answer(self, call: BoundCall, outcome: CallResult | CallRefused) -> None: ...

    def progress(
        self, call: BoundCall, progress: float, total: float | None = None, message: str | None = None
    ) -> None: ...

    def log(self, call: BoundCall, level: str, data: object, logger: str | None = None) -> None: ...


async def never(call: ToolCall) -> CallResult:
    raise AssertionError(call)


def session(*names: str, page_size: int = 2) -> McpSession:
    binding = Binding(toolbox([]), max_calls=8)
    binding.publish(toolbox([tool(name) for name in names]), never, None)
    return McpSession(binding=binding, origin=Nowhere(), server_name="ostler", server_version="1", page_size=page_size)


def said(effects: Sequence[Effect]) -> list[dict[str, Any]]:
    return [json.loads(effect.frame) for effect in effects if isinstance(effect, SendFrame)]


def ask(to: McpSession, method: str, params: Any = None, ident: Any = 1) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
    (reply,) = said(to.receive(json.dumps(message).encode()))
    assert reply["id"] == ident
    return reply


def begin(to: McpSession, ident: Any = 1, **params: Any) -> BoundCall:
    message = {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": {"name": "a", **params}}
    (effect,) = to.receive(json.dumps(message).encode())
    assert isinstance(effect, BeginCall)
    return effect.call


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_every_handshake_version_is_spoken(version: str) -> None:
    result = ask(session(), "initialize", {"protocolVersion": version})["result"]
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {"listChanged": True}, "logging": {}}
    assert result["serverInfo"] == {"name": "ostler", "version": "1"}


@pytest.mark.parametrize("version", ["2099-01-01", STATELESS_VERSION, "", None, 7, ["2025-06-18"]])
def test_any_other_version_is_offered_the_newest(version: object) -> None:
    assert ask(session(), "initialize", {"protocolVersion": version})["result"]["protocolVersion"] == "2025-11-25"


def test_lists_come_in_pages() -> None:
    to, names, cursor = session("a", "b", "c", "d", "e"), [], None
    while True:
        result = ask(to, "tools/list", {"cursor": cursor} if cursor else None)["result"]
        names += [entry["name"] for entry in result["tools"]]
        cursor = result.get("nextCursor")
        if cursor is None:
            break
    assert names == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("cursor", ["", "1", "9.2", "1.9", "1.-1", "1.x", "1.٢", 5, {"a": 1}, "1." + "9" * 5000])
def test_a_cursor_that_we_did_not_give_is_an_error(cursor: object) -> None:
    assert ask(session("a", "b", "c"), "tools/list", {"cursor": cursor})["error"]["code"] == -32602


def test_a_cursor_of_another_list_is_an_error() -> None:
    to = session("a", "b", "c")
    cursor = ask(to, "tools/list")["result"]["nextCursor"]
    to.binding.publish(toolbox([tool(name) for name in "xyz"]), never, None)
    assert ask(to, "tools/list", {"cursor": cursor})["error"]["code"] == -32602


def test_a_tool_list_cannot_break_out_of_its_frame() -> None:
    to = session()
    nasty = '"tools":[]}}\n{"jsonrpc":"2.0"'
    to.binding.publish(toolbox([tool(nasty, nasty)]), never, None)
    reply = ask(to, "tools/list", ident=nasty)
    assert [entry["name"] for entry in reply["result"]["tools"]] == [nasty]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("prompts/list", None, -32601),
        ("tools/list", [], -32602),
        ("tools/call", {"name": 1}, -32602),
        ("tools/call", {"name": "a", "arguments": []}, -32602),
        ("tools/call", {"name": "nope"}, -32602),
        ("logging/setLevel", {"level": "loud"}, -32602),
        ("server/discover", {"_meta": {VERSION_KEY: "1999-01-01"}}, -32022),
    ],
)
def test_what_cannot_be_answered_is_a_clean_error(method: str, params: Any, code: int) -> None:
    assert ask(session("a"), method, params)["error"]["code"] == code


@pytest.mark.parametrize(
    ("frame", "codes"),
    [
        (b"{", [-32700]),
        (b"\xff\xfe", [-32700]),
        (b"[]", [-32600]),
        (b"7", [-32600]),
        (b"[1]", [-32600]),
        (b"{}", [-32600]),
        (b'{"id":null,"method":"ping"}', [-32600]),
        (b'{"id":true,"method":"ping"}', [-32600]),
        (b'{"id":[1],"method":"ping"}', [-32600]),
        (b'{"id":1,"result":{}}', []),
        (b'{"method":"notifications/anything"}', []),
        (b'{"method":"notifications/cancelled","params":{"requestId":[]}}', []),
        (b'{"method":"notifications/cancelled","params":[]}', []),
    ],
)
def test_what_is_no_request_is_told_so_at_most_once(frame: bytes, codes: list[int]) -> None:
    replies = said(session("a").receive(frame))
    assert [reply["error"]["code"] for reply in replies] == codes
    assert all(reply["id"] is None for reply in replies)


def test_a_batch_is_answered_one_by_one() -> None:
    batch = [{"id": 1, "method": "ping"}, {"method": "notifications/initialized"}, {"id": "2", "method": "nope"}]
    replies = said(session().receive(json.dumps(batch).encode()))
    assert [(reply["id"], "error" in reply) for reply in replies] == [(1, False), ("2", True)]


def test_an_id_in_use_is_refused_and_the_call_goes_on() -> None:
    to = session("a")
    call = begin(to)
    assert ask(to, "tools/call", {"name": "a"})["error"]["code"] == -32600
    assert to.answer(call, CallResult.text("x")) is not None
    assert to.answer(call, CallResult.text("x")) is None


def test_lone_surrogates_never_reach_an_agent() -> None:
    to = session("a")
    frame = to.answer(begin(to), CallResult.text("cut \ud83d"))
    assert frame is not None
    assert json.loads(frame)["result"]["content"][0]["text"] == "cut \ufffd"


def test_a_cancelled_call_is_ended_once_and_its_id_is_free() -> None:
    to = session("a")
    call = begin(to)
    frame = b'{"method":"notifications/cancelled","params":{"requestId":1}}'
    assert to.receive(frame) == [End(call)]
    assert to.receive(frame) == []
    assert begin(to) is not call
    assert to.answer(call, CallResult.text("late")) is None
    assert to.progress(call, 1, None, None) is None


def test_progress_is_told_to_who_asked() -> None:
    to = session("a")
    frame = to.progress(begin(to, 1, _meta={"progressToken": 7}), 1, 2, "half")
    assert frame is not None
    assert json.loads(frame)["params"] == {"progressToken": 7, "progress": 1, "total": 2, "message": "half"}
    assert to.progress(begin(to, 2), 1, None, None) is None
    assert to.progress(begin(to, 3, _meta={"progressToken": {}}), 1, None, None) is None


def test_notices_wait_for_the_end_of_the_handshake() -> None:
    to = session("a")
    to.receive(b'{"method":"notifications/initialized"}')
    assert to.list_changed() is None
    ask(to, "initialize", {"protocolVersion": "2025-06-18"})
    assert to.list_changed() is None
    assert to.log("error", "x", None) is None
    to.receive(b'{"method":"notifications/initialized"}')
    assert to.list_changed() is not None
    assert to.log("debug", "x", None) is None
    assert to.log("error", "x", None) is not None


def test_the_stateless_revision_needs_no_handshake() -> None:
    to = session("a")
    found = ask(to, "server/discover", {"_meta": MODERN})["result"]
    assert found["supportedVersions"][0] == STATELESS_VERSION
    assert found["resultType"] == "complete"
    listed = ask(to, "tools/list", {"_meta": MODERN})["result"]
    assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 0, "private")
    frame = to.answer(begin(to, _meta=MODERN), CallResult.text("x"))
    assert frame is not None
    assert json.loads(frame)["result"]["resultType"] == "complete"


def test_the_stateless_revision_subscribes_to_changes() -> None:
    to = session("a")
    assert to.list_changed() is None
    listen = {"id": "s", "method": "subscriptions/listen"}
    params = {"_meta": MODERN, "notifications": {"toolsListChanged": True}}
    (granted,) = said(to.receive(json.dumps({**listen, "params": params}).encode()))
    assert granted["params"]["notifications"] == {"toolsListChanged": True}
    notice = to.list_changed()
    assert notice is not None
    assert json.loads(notice)["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "s"}
    to.receive(b'{"method":"notifications/cancelled","params":{"requestId":"s"}}')
    assert to.list_changed() is None


def test_listing_is_what_attaches() -> None:
    to = session("a")
    ask(to, "initialize", {"protocolVersion": "2025-06-18"})
    assert to.binding.state is BindingState.ISSUED
    ask(to, "tools/list")
    assert to.binding.state is BindingState.ATTACHED


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
methods = st.sampled_from(
    [
        "initialize", "tools/list", "tools/call", "ping", "logging/setLevel", "server/discover",
        "subscriptions/listen", "notifications/cancelled", "notifications/initialized", "x",
    ]
)  # fmt: skip
params = st.fixed_dictionaries(
    {},
    optional={
        key: json_values | st.sampled_from(["a", STATELESS_VERSION, "info", {VERSION_KEY: STATELESS_VERSION}])
        for key in ("name", "arguments", "cursor", "level", "requestId", "_meta", "protocolVersion", "notifications")
    },
)
messages = st.fixed_dictionaries(
    {}, optional={"id": json_values, "method": methods | json_values, "params": params | json_values}
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.binary(max_size=40) | (messages | st.lists(messages, max_size=3)).map(lambda m: json.dumps(m).encode()))
)
def test_f14_nothing_that_arrives_raises_and_every_id_is_echoed(frames: list[bytes]) -> None:
    to = session("a")
    for frame in frames:
        for effect in to.receive(frame):
            if isinstance(effect, SendFrame):
                assert effect.frame.count(b"\n") == 1
                json.loads(effect.frame)


TOKEN = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (b"", RejectReason.MALFORMED),
        (b"OSTLER/1", RejectReason.MALFORMED),
        (b"OSTLER/1 1 ", RejectReason.MALFORMED),
        (b"OSTLER/1 x " + TOKEN.encode(), RejectReason.MALFORMED),
        (b"OSTLER/1 1 " + TOKEN.upper().encode(), RejectReason.MALFORMED),
        (b"OSTLER/1 1 " + TOKEN.encode() + b"\r", RejectReason.MALFORMED),
        (b"OSTLER/1 1  " + TOKEN.encode(), RejectReason.MALFORMED),
        (b"OSTLER/2 1 " + TOKEN.encode(), RejectReason.VERSION),
    ],
)
def test_w07c_a_hello_is_exact(line: bytes, cause: RejectReason) -> None:
    assert hello.parse(line) is cause
    assert hello.parse(b"OSTLER/1 12 " + TOKEN.encode()) == hello.Hello(TOKEN, 12)


def test_a_repeated_token_is_our_own_fault() -> None:
    table = Bindings(tells_processes=True)
    table.issue(b"x", Binding(toolbox([]), max_calls=1))
    with pytest.raises(TokenCollision):
        table.issue(b"x", Binding(toolbox([]), max_calls=1))


def test_without_process_identity_the_table_relies_on_the_uid() -> None:
    table = Bindings(tells_processes=False)
    binding = Binding(toolbox([]), max_calls=1)
    table.issue(b"x", binding)
    assert not isinstance(table.admit(1, b"x", RelayPeer()), RejectReason)
    assert table.admit(2, b"x", RelayPeer()) == Compromised(binding)
    table.part(1)
    assert not isinstance(table.admit(3, b"x", RelayPeer()), RejectReason | Compromised)


def test_n29_a_process_that_vanished_while_we_looked_is_admitted_to_nothing() -> None:
    table = Bindings(tells_processes=True)
    table.issue(b"x", Binding(toolbox([]), max_calls=1))
    assert table.admit(1, b"x", RelayPeer()) is RejectReason.FOREIGN


@pytest.mark.parametrize("bad", [{}, {"name": ""}, {"name": "a"}, {"name": "a", "inputSchema": {"x": {1}}}])
def test_a_tool_that_cannot_be_offered_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ToolMalformed):
        toolbox([bad])
    with pytest.raises(DuplicateTool):
        toolbox([tool("a"), tool("a")])


def test_equal_tools_are_held_once_and_only_while_needed() -> None:
    boxes = Toolboxes()
    first, second = boxes.of([tool("a")]), boxes.of([tool("a")])
    assert first is second
    assert boxes.of([tool("b")]) != first
    del first, second
    assert len(boxes) == 0


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-abcdefghijklmnop",
        "ghp_abcdefghijklmnopqrst",
        "AIzaSyA1234567890abcdefgh",
        TOKEN,
        "eyJhbGciOiJI.eyJzdWIi.sig",
    ],
)
def test_secrets_are_taken_out_of_error_texts(secret: str) -> None:
    assert secret not in redacted(f"401 for {secret}: denied")
    assert redacted("password=hunter22 and token: abcdef") == "password=[redacted] and token: [redacted]"
    assert "hunter22" not in redacted("postgres://me:hunter22@host/db")
    assert redacted("file not found: /tmp/x") == "file not found: /tmp/x"


@pytest.mark.parametrize("limit", [10, 30, 40, 60])
def test_f15_a_secret_at_the_cut_does_not_leave_in_half(limit: int) -> None:
    secret = "0123456789abcdef" * 2
    shown = excerpt(f"the key was {secret} and more", limit)
    assert len(shown) <= limit
    assert secret[:4] not in shown
    assert secret[:4] not in excerpt("x " * 8 * limit + secret, limit)


def test_rf8_redacting_takes_time_linear_in_a_text_from_outside() -> None:
    """Quadratic, this one would take a quarter of an hour; whoever runs into the test timeout knows why."""
    assert redacted("eyJ" * 400_000) == "eyJ" * 400_000
