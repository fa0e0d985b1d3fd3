"""Two peers back to back: whatever is said, cut anywhere, arrives complete and in order (W37c, WM1, WM2)."""

import itertools
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ostler.wire.rpc import Junk, Notification, Peer, Reply, Request, RpcFault
from tests.support.junk import JUNK_KINDS

PARAMS = st.dictionaries(
    st.text(max_size=5), st.none() | st.integers(-(2**53), 2**53) | st.text(max_size=40), max_size=3
)

METHOD = st.sampled_from(["session/update", "session/prompt", "é😀"])


@dataclass
class End:
    """One side: what it has said that is still on the way, and what it expects to hear."""

    peer: Peer[int] = field(default_factory=Peer)
    outgoing: bytearray = field(default_factory=bytearray)
    expects: list[Any] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)
    tokens: int = 0


class TwoPeers(RuleBasedStateMachine):
    """Requests, notifications, replies and faults both ways, delivered in portions of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = (End(), End())

    @rule(side=st.integers(0, 1), method=METHOD, params=PARAMS)
    def notify(self, side: int, method: str, params: dict[str, Any]) -> None:
        self.ends[side].outgoing += self.ends[side].peer.notify(method, params)
        self.ends[1 - side].expects.append(Notification(method, params))

    @rule(side=st.integers(0, 1), method=METHOD, params=PARAMS)
    def call(self, side: int, method: str, params: dict[str, Any]) -> None:
        end = self.ends[side]
        end.tokens += 1
        call_id, frame = end.peer.call(method, params, end.tokens)
        assert call_id == end.tokens
        end.waiting.add(call_id)
        end.outgoing += frame
        self.ends[1 - side].expects.append(Request(call_id, method, params))

    @rule(side=st.integers(0, 1), at=st.integers(0, 1000), result=PARAMS, fails=st.booleans())
    def answer(self, side: int, at: int, result: dict[str, Any], fails: bool) -> None:
        end = self.ends[side]
        if not end.asked:
            return
        request_id = end.asked.pop(at % len(end.asked))
        fault = RpcFault(-32000, "no", result or None) if fails else None
        end.outgoing += end.peer.reply_fault(request_id, fault) if fault else end.peer.reply(request_id, result)
        self.ends[1 - side].expects.append(Reply(request_id, None if fault else result, fault))

    @rule(side=st.integers(0, 1), at=st.integers(0, 1000))
    def forget(self, side: int, at: int) -> None:
        end = self.ends[side]
        if not end.waiting:
            return
        call_id = sorted(end.waiting)[at % len(end.waiting)]
        end.waiting.remove(call_id)
        assert end.peer.forget(call_id)

    @rule(side=st.integers(0, 1), size=st.integers(0, 200))
    def deliver(self, side: int, size: int) -> None:
        speaker, hearer = self.ends[side], self.ends[1 - side]
        portion = bytes(speaker.outgoing[:size])
        del speaker.outgoing[:size]
        for message in hearer.peer.receive(portion):
            expected = hearer.expects.pop(0)
            if isinstance(message, Junk):
                assert message.kind == "late_reply"
                assert expected.token not in hearer.waiting
                continue
            assert message == expected
            if isinstance(message, Request):
                assert isinstance(message.id, int)
                hearer.asked.append(message.id)
            elif isinstance(message, Reply):
                hearer.waiting.remove(message.token)

    @invariant()
    def the_table_holds_exactly_the_calls_in_flight(self) -> None:
        for end in self.ends:
            assert end.peer.pending == len(end.waiting)

    def teardown(self) -> None:
        for side in (0, 1):
            self.deliver(side, len(self.ends[side].outgoing))
        for end in self.ends:
            assert end.expects == []
            assert sorted(end.peer.close("the walk is over")) == sorted(end.waiting)


TestTwoPeers = TwoPeers.TestCase

FRAGMENT = st.sampled_from(
    [
        b'{"',
        b'"id":',
        b'"method":',
        b'"params":',
        b'"result":',
        b'"error":',
        b"{}",
        b"[]",
        b"[",
        b"]",
        b"}",
        b",",
        b":",
        b"1",
        b"true",
        b"1.0",
        b"null",
        b'"m"',
        b'"\\ud83d"',
        b"\xff",
        b"\xef\xbb\xbf",
        b"\x00",
        b"\n",
        b"\r\n",
        b"x" * 30,
    ]
)


@given(st.lists(FRAGMENT | st.binary(max_size=8), max_size=40), st.lists(st.integers(0, 300), max_size=5))
def test_w36_w37b_no_bytes_are_fatal_and_the_next_lines_are_heard(fragments: list[bytes], cuts: list[int]) -> None:
    peer: Peer[str] = Peer(limit=64, write_limit=200)
    peer.call("m", {}, "first")
    garbage = b"".join(fragments)
    edges = [0, *sorted(cut % (len(garbage) + 1) for cut in cuts), len(garbage)]
    settled = 0
    for start, end in itertools.pairwise(edges):
        for message in peer.receive(garbage[start:end]):
            settled += isinstance(message, Reply)
            assert not isinstance(message, Junk) or message.kind in JUNK_KINDS
    assert settled + peer.pending == 1
    call_id, _ = peer.call("m", {}, "second")
    heard = list(peer.receive(b'\n{"id":%d,"result":"ours"}\n{"method":"after"}\n' % call_id))
    assert heard[-2:] == [Reply("second", "ours", None), Notification("after", {})]
