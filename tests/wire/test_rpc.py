"""The peer: every frame has one meaning, no frame is fatal, no call is forgotten (W36, W37b, WM1, WM2)."""

import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest

from ostler.wire.json import Unencodable, decode
from ostler.wire.rpc import (
    BATCH_LIMIT,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    SAMPLE,
    FrameTooLong,
    Incoming,
    Junk,
    Notification,
    Peer,
    PeerClosed,
    Reply,
    Request,
    RpcFault,
)
from tests.support.junk import JUNK_KINDS

MIB = 1024 * 1024
UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"n":1}}'


def peer_with_calls(count: int, **options: Any) -> Peer[str]:
    """A peer whose calls 1..count wait under the tokens `call 1`..."""
    peer: Peer[str] = Peer(**options)
    for number in range(1, count + 1):
        assert peer.call("session/prompt", {}, f"call {number}")[0] == number
    return peer


def heard(peer: Peer[str], *lines: bytes) -> list[Incoming[str]]:
    return list(peer.receive(b"".join(line + b"\n" for line in lines)))


def kinds(messages: Iterable[Incoming[str]]) -> list[str]:
    return [message.kind if isinstance(message, Junk) else type(message).__name__ for message in messages]


def answer_of(message: Incoming[str]) -> Any:
    assert isinstance(message, Junk)
    return None if message.answer is None else decode(message.answer)


def test_frames_as_they_are_written() -> None:
    peer: Peer[str] = Peer()
    assert peer.call("a", {"x": 1}, "t") == (1, b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1}}\n')
    assert peer.call("b", None, "t") == (2, b'{"jsonrpc":"2.0","id":2,"method":"b"}\n')
    assert peer.notify("c", {}) == b'{"jsonrpc":"2.0","method":"c","params":{}}\n'
    assert peer.notify("d", None) == b'{"jsonrpc":"2.0","method":"d"}\n'
    assert peer.reply("id", None) == b'{"jsonrpc":"2.0","id":"id","result":null}\n'
    assert peer.reply_fault(7, RpcFault(-1, "no")) == b'{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}\n'
    assert decode(peer.reply_fault(7, RpcFault(-1, "no", {"why": 1})))["error"]["data"] == {"why": 1}
    assert Peer(versioned=False).call("a", {}, "t")[1] == b'{"id":1,"method":"a","params":{}}\n'
    assert Peer(versioned=False).notify("a", {}) == b'{"method":"a","params":{}}\n'


def test_messages_of_one_portion_keep_the_order_of_the_wire() -> None:
    peer = peer_with_calls(2)
    assert heard(
        peer,
        UPDATE,
        b'{"id":2,"result":{"stop":"end"}}',
        UPDATE,
        b'{"id":"ask","method":"fs/read","params":{"path":"x"}}',
        b'{"id":1,"error":{"code":-32000,"message":"auth","data":[1]}}',
    ) == [
        Notification("session/update", {"n": 1}),
        Reply("call 2", {"stop": "end"}, None),
        Notification("session/update", {"n": 1}),
        Request("ask", "fs/read", {"path": "x"}),
        Reply("call 1", None, RpcFault(-32000, "auth", [1])),
    ]
    assert peer.pending == 0
    assert not peer.junk


@pytest.mark.parametrize(
    ("frame", "reply"),
    [
        (b'{"id":1,"result":null}', Reply("call 1", None, None)),
        (b'{"id":1,"result":0,"error":null}', Reply("call 1", 0, None)),
        (b'{"jsonrpc":"2.0","id":1}', Reply("call 1", None, None)),
        (b'{"id":1,"method":null,"result":5}', Reply("call 1", 5, None)),
        (b'{"id":1,"result":5,"error":{"code":1,"message":"m"}}', Reply("call 1", None, RpcFault(1, "m"))),
        (b'{"id":1,"id":9,"result":5,"id":1}', Reply("call 1", 5, None)),
        (b'{"id":1,"error":"plain"}', Reply("call 1", None, RpcFault(INTERNAL_ERROR, "plain"))),
        (
            b'{"id":1,"error":{}}',
            Reply("call 1", None, RpcFault(INTERNAL_ERROR, "the peer gave no message")),
        ),
        (
            b'{"id":1,"error":{"code":"x","message":5,"data":0}}',
            Reply("call 1", None, RpcFault(INTERNAL_ERROR, "the peer gave no message", 0)),
        ),
        (b'{"id":1,"error":{"code":true,"message":"m"}}', Reply("call 1", None, RpcFault(INTERNAL_ERROR, "m"))),
        (
            b'{"id":1,"error":false}',
            Reply("call 1", None, RpcFault(INTERNAL_ERROR, "the peer's error is not an object", False)),
        ),
    ],
)
def test_wm1_a_badly_formed_reply_still_settles_its_call(frame: bytes, reply: Reply[str]) -> None:
    peer = peer_with_calls(1)
    assert heard(peer, frame) == [reply]
    assert peer.pending == 0


@pytest.mark.parametrize("depth", [150, 300, 900, 1020, 10_000])
@pytest.mark.parametrize("member", [b"error", b"result"])
def test_wm1_a_reply_nested_too_deep_to_print_still_settles_its_call(member: bytes, depth: int) -> None:
    peer = peer_with_calls(2)
    *junk, reply = heard(peer, b'{"id":1,"' + member + b'":' + b"[" * depth + b"]" * depth + b"}")
    assert isinstance(reply, Reply)
    assert reply.token == "call 1"
    assert repr(reply)
    assert kinds(junk) == ([] if depth == 150 else ["too_deep"])
    if junk:
        assert str(reply.fault) == "the message could not be read: too_deep (-32600)"
    assert peer.pending == 1


@pytest.mark.parametrize(
    ("rest", "kind"), [(b'"\xff"', "invalid_utf8"), (b"[" * 300 + b"]" * 300, "too_deep"), (b'{"a":', "not_json")]
)
def test_w37c_a_message_that_cannot_be_read_leaves_nobody_waiting(rest: bytes, kind: str) -> None:
    peer = peer_with_calls(2)
    messages = heard(
        peer,
        b'{"jsonrpc":"2.0","id":1,"result":' + rest + b"}",
        b'{"jsonrpc":"2.0","id":1,"method":"fs/read","params":' + rest + b"}",
        UPDATE,
    )
    if kind == "not_json":
        assert kinds(messages) == [kind, kind, "Notification"]
        assert (answer_of(messages[1]), peer.pending) == (None, 2)
    else:
        assert kinds(messages) == [kind, "Reply", kind, "Notification"]
        assert (answer_of(messages[2])["id"], peer.pending) == (1, 1)


@pytest.mark.parametrize(
    "call_id", [b"true", b"1.0", b'"1"', b"null", b"[1]", b'{"a":1}', b"-1", b"0", b"2", b"1e0", b"1" * 30]
)
def test_w37b_an_id_that_is_not_our_integer_finds_no_call(call_id: bytes) -> None:
    peer = peer_with_calls(1)
    messages = heard(peer, b'{"id":' + call_id + b',"result":"stolen"}', UPDATE)
    assert kinds(messages) == ["unmatched_reply", "Notification"]
    assert peer.pending == 1
    assert heard(peer, b'{"id":1,"result":"ours"}') == [Reply("call 1", "ours", None)]


@pytest.mark.parametrize("method", [b"5", b"true", b"[]", b"{}", b"1.5"])
def test_w37b_a_badly_formed_request_never_passes_for_a_reply(method: bytes) -> None:
    peer = peer_with_calls(1)
    (junk,) = heard(peer, b'{"jsonrpc":"2.0","id":1,"method":' + method + b',"result":1}')
    assert kinds([junk]) == ["bad_method"]
    assert answer_of(junk)["error"]["code"] == INVALID_REQUEST
    assert answer_of(junk)["id"] == 1
    assert peer.pending == 1


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (b"Loaded cached credentials.", "not_json"),
        (b"\x00", "not_json"),
        (b"[" * 10_000, "too_deep"),
        (b"[" * 300 + b"]" * 300, "too_deep"),
        (b'{"method":"m","params":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "too_deep"),
        (b'"\xff"', "invalid_utf8"),
        (b"1", "not_an_object"),
        (b"NaN", "not_json"),
        (b'"text"', "not_an_object"),
        (b"null", "not_an_object"),
        (b"[]", "not_an_object"),
        (b"[[]]", "not_an_object"),
        (b"[1]", "not_an_object"),
        (b"[" + b"{}," * BATCH_LIMIT + b"{}]", "batch_too_long"),
        (b"{}", "no_method"),
        (b'{"result":1}', "no_method"),
        (b'{"jsonrpc":"2.0","method":null}', "no_method"),
        (b'{"id":null,"error":{"code":-32700,"message":"parse error"}}', "nameless_fault"),
        (b'{"error":{"code":-32700,"message":"parse error"}}', "nameless_fault"),
        (b'{"id":99,"result":1}', "unmatched_reply"),
        (b'{"id":null,"result":1}', "unmatched_reply"),
        (b'{"method":5}', "bad_method"),
        (b'{"method":"m","params":[1]}', "params_not_an_object"),
        (b'{"method":"m","params":"x"}', "params_not_an_object"),
        (b'{"method":"m","params":false}', "params_not_an_object"),
    ],
    ids=lambda value: value[:40].decode("ascii", "backslashreplace") if isinstance(value, bytes) else value,
)
def test_w37b_junk_is_counted_by_kind_and_never_fatal(frame: bytes, kind: str) -> None:
    peer = peer_with_calls(1)
    messages = heard(peer, UPDATE, frame, UPDATE, b'{"id":1,"result":1}')
    assert kinds(messages) == ["Notification", kind, "Notification", "Reply"]
    junk = messages[1]
    assert isinstance(junk, Junk)
    assert frame[:SAMPLE].startswith(junk.sample)
    assert len(junk.sample) >= min(len(frame), 200)
    assert junk.answer is None
    assert peer.junk == {kind: 1}
    assert kind in JUNK_KINDS


def test_w37b_empty_lines_are_not_even_junk() -> None:
    peer = peer_with_calls(0)
    assert heard(peer, b"", b"\r", b"   ") == []
    assert not peer.junk


def test_w37b_a_byte_order_mark_does_not_cost_the_first_reply() -> None:
    assert heard(peer_with_calls(1), b'\xef\xbb\xbf{"id":1,"result":1}\r') == [Reply("call 1", 1, None)]


def test_w37b_a_batch_is_taken_apart_in_order() -> None:
    """The reader of the ACP SDK ends at an array line."""
    peer = peer_with_calls(1)
    messages = heard(peer, b"[" + UPDATE + b',{"id":1,"result":2},[],7,{"id":9,"method":"m"}]', UPDATE)
    assert kinds(messages) == ["Notification", "Reply", "not_an_object", "not_an_object", "Request", "Notification"]


def test_a_batch_of_the_longest_allowed_length_passes() -> None:
    assert len(heard(peer_with_calls(0), b"[" + b",".join([UPDATE] * BATCH_LIMIT) + b"]")) == BATCH_LIMIT


@pytest.mark.parametrize("request_id", [0, -1, 1.5, "text", "", None, 2**63])
def test_any_valid_id_of_theirs_is_echoed(request_id: Any) -> None:
    peer = peer_with_calls(0)
    asked = decode(peer.reply(request_id, None))["id"]
    (request,) = heard(peer, peer.reply(request_id, 0).replace(b'"result":0', b'"method":"m","params":null').strip())
    assert request == Request(asked, "m", {})


@pytest.mark.parametrize("request_id", [b"true", b"[]", b"{}", b"[" * 150 + b"]" * 150], ids=len)
@pytest.mark.parametrize("params", [b"{}", b"[]"])
def test_w37b_a_request_with_an_impossible_id_is_answered_without_one(request_id: bytes, params: bytes) -> None:
    peer = peer_with_calls(1)
    (junk,) = heard(peer, b'{"method":"m","id":' + request_id + b',"params":' + params + b"}")
    assert answer_of(junk)["id"] is None
    assert answer_of(junk)["error"]["code"] in {INVALID_REQUEST, INVALID_PARAMS}
    assert peer.pending == 1


def test_w37b_a_request_with_bad_params_is_answered_under_its_id() -> None:
    (junk,) = heard(peer_with_calls(0), b'{"method":"m","id":"a","params":[]}')
    assert answer_of(junk) == {
        "jsonrpc": "2.0",
        "id": "a",
        "error": {"code": INVALID_PARAMS, "message": "params must be an object"},
    }


@pytest.mark.parametrize("text", [b'"\\ud83d"', b'"\\ud83d\\u0000"'])
def test_w37c_half_an_emoji_costs_no_message(text: bytes) -> None:
    (update,) = heard(peer_with_calls(0), b'{"method":"m","params":{"text":' + text + b"}}")
    assert isinstance(update, Notification)
    assert update.params["text"].startswith("\ufffd")


def test_w37c_half_an_emoji_is_never_written() -> None:
    peer = peer_with_calls(0)
    for frame in (
        peer.call("m\ud83d", {"\ud83d": "\ud83d"}, "t")[1],
        peer.notify("m", {"a": ["\ude00"]}),
        peer.reply("\ud83d", "\ud83d"),
        peer.reply_fault(1, RpcFault(1, "\ud83d", "\ud83d")),
    ):
        assert "\ufffd" in frame.decode("utf-8")


@pytest.mark.parametrize(
    "head",
    [
        b'{"jsonrpc":"2.0","id":2,"result":"',
        b'{"id":2,"result":"',
        b' { "id" : 2 , "jsonrpc" : "2.0" , "result" : "',
        b'{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"',
    ],
)
def test_w36_a_reply_over_the_cap_fails_its_call_and_no_other(head: bytes) -> None:
    peer = peer_with_calls(3, limit=1000)
    messages = heard(peer, UPDATE, head + b"x" * 2000, UPDATE, b'{"id":3,"result":1}')
    assert kinds(messages) == ["Notification", "line_too_long", "Reply", "Notification", "Reply"]
    failed = messages[2]
    assert isinstance(failed, Reply)
    assert failed.token == "call 2"
    assert failed.fault is not None
    assert "over the limit of 1000 bytes" in str(failed.fault)
    assert peer.pending == 1


@pytest.mark.parametrize("request_id", [7, "seven"])
@pytest.mark.parametrize(
    "head",
    [
        b'{"jsonrpc":"2.0","id":%s,"method":"fs/write","params":{"content":"',
        b'{"method":"fs/write","id":%s,"params":{"content":"',
    ],
)
def test_w36_a_request_over_the_cap_is_answered_so_that_its_agent_does_not_wait(
    head: bytes, request_id: int | str
) -> None:
    peer = peer_with_calls(1, limit=1000)
    asked = b"%d" % request_id if isinstance(request_id, int) else b'"%s"' % request_id.encode()
    (junk,) = heard(peer, head % asked + b"x" * 2000)
    assert kinds([junk]) == ["line_too_long"]
    answer = answer_of(junk)
    assert (answer["id"], answer["error"]["code"]) == (request_id, INVALID_REQUEST)
    assert peer.pending == 1


@pytest.mark.parametrize(
    "head",
    [
        b"x",
        b'{"jsonrpc":"2.0","method":"session/update","params":{"x":"',
        b'{"result":"',
        b'{"id":99,"result":"',
        b'{"id":"1","result":"',
        b'{"id":1.0,"result":"',
        b'{"id":01,"result":"',
        b'{"id":1,"extra":{},"result":"',
        b'{"nested":{"id":1,"result":"',
        b'{"method":"\xff","id":1,"params":"',
    ],
)
def test_w36_a_dropped_line_that_names_no_call_of_ours_costs_only_itself(head: bytes) -> None:
    peer = peer_with_calls(1, limit=1000)
    messages = heard(peer, head + b"x" * 2000, UPDATE, b'{"id":1,"result":1}')
    assert kinds(messages) == ["line_too_long", "Notification", "Reply"]
    assert answer_of(messages[0]) is None


@pytest.mark.parametrize("size", [64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, MIB, 20 * MIB])
def test_w36_long_messages_pass_both_ways(size: int) -> None:
    ours: Peer[str] = Peer()
    theirs: Peer[str] = Peer()
    text = "x" * size
    call_id, frame = ours.call("echo", {"text": text}, "token")
    (request,) = theirs.receive(frame)
    assert request == Request(call_id, "echo", {"text": text})
    assert list(ours.receive(theirs.reply(call_id, text))) == [Reply("token", text, None)]


def test_w36_a_write_limit_refuses_before_anything_is_registered() -> None:
    peer: Peer[str] = Peer(write_limit=100)
    exact = len(peer.notify("m", {"t": ""})) - 1
    assert len(peer.notify("m", {"t": "x" * (100 - exact)})) == 101
    with pytest.raises(FrameTooLong, match="a frame of 101 bytes is over the limit of 100 bytes") as caught:
        peer.notify("m", {"t": "x" * (101 - exact)})
    assert (caught.value.size, caught.value.limit) == (101, 100)
    for write in (
        lambda: peer.call("m", {"t": "x" * 100}, "t"),
        lambda: peer.reply(1, "x" * 100),
        lambda: peer.reply_fault(1, RpcFault(1, "x" * 100)),
    ):
        with pytest.raises(FrameTooLong):
            write()
    assert peer.pending == 0
    assert peer.call("m", {}, "t")[0] == 1


def test_w36_a_write_limit_never_makes_reading_raise() -> None:
    peer: Peer[str] = Peer(write_limit=10)
    assert kinds(heard(peer, b'{"id":"' + b"i" * 300 + b'","method":"m","params":[]}')) == ["params_not_an_object"]


def test_a_call_that_cannot_be_written_is_not_registered() -> None:
    peer: Peer[str] = Peer()
    with pytest.raises(Unencodable):
        peer.call("m", {"x": object()}, "t")
    assert peer.pending == 0
    assert peer.call("m", {}, "t")[0] == 1


def test_wm1_close_gives_every_pending_call_back_exactly_once() -> None:
    peer = peer_with_calls(4)
    heard(peer, b'{"id":2,"result":1}')
    assert peer.close("the process exited with 0") == ["call 1", "call 3", "call 4"]
    assert peer.close("again") == []
    assert peer.pending == 0
    assert kinds(heard(peer, b'{"id":1,"result":1}')) == ["late_reply"]


def test_wm1_a_call_after_close_says_why() -> None:
    peer = peer_with_calls(0)
    peer.close("the process exited with 0")
    peer.close("a later reason")
    with pytest.raises(PeerClosed, match="the peer is closed: the process exited with 0") as caught:
        peer.call("m", {}, "t")
    assert caught.value.reason == "the process exited with 0"
    assert peer.close("again") == []


def test_wm1_what_was_written_before_the_end_is_still_heard() -> None:
    peer = peer_with_calls(1)
    peer.close("broken pipe")
    assert kinds(heard(peer, UPDATE, b'{"id":5,"method":"m"}')) == ["Notification", "Request"]


def test_wm1_close_while_a_portion_is_handled_settles_what_the_rest_would_have() -> None:
    peer = peer_with_calls(2)
    messages = peer.receive(b'{"id":1,"result":1}\n{"id":2,"result":2}\n')
    assert next(messages) == Reply("call 1", 1, None)
    assert peer.close("gone") == ["call 2"]
    assert kinds(messages) == ["late_reply"]


def test_wm2_forget_removes_at_once_and_the_late_reply_is_dropped() -> None:
    peer = peer_with_calls(2)
    assert peer.forget(1)
    assert not peer.forget(1)
    assert not peer.forget(99)
    assert kinds(heard(peer, b'{"id":1,"result":1}', b'{"id":2,"result":1}', b'{"id":2,"result":1}')) == [
        "late_reply",
        "Reply",
        "late_reply",
    ]
    assert peer.close("done") == []


def test_bytes_are_taken_in_order_even_when_nobody_reads_the_messages() -> None:
    peer = peer_with_calls(1)
    peer.receive(b'{"id":1,')
    assert list(peer.receive(b'"result":1}\n')) == [Reply("call 1", 1, None)]


def test_wm2_ten_thousand_calls_leave_nothing() -> None:
    peer: Peer[int] = Peer()

    def traffic(count: int) -> None:
        for number in range(count):
            call_id, _ = peer.call("m", {"n": number}, number)
            (reply,) = peer.receive(b'{"id":%d,"result":{"n":%d}}\n' % (call_id, number))
            assert reply == Reply(number, {"n": number}, None)
            for _ in peer.receive(b'junk\n{"id":%d,"result":1}\n{"id":"r","method":"m"}\n' % call_id):
                pass

    tracemalloc.start()
    try:
        traffic(500)
        before = tracemalloc.get_traced_memory()[0]
        traffic(10_000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert peer.pending == 0
    assert peer.junk == {"not_json": 10_500, "late_reply": 10_500}
    assert grown < 4096
