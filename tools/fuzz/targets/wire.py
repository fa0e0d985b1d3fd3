"""The peer and its framing: the same messages however the bytes are cut, and every promise of `wire/rpc.py`."""

import re
from itertools import pairwise
from random import Random

from ostler.wire.json import decode
from ostler.wire.rpc import Incoming, Junk, Peer, Reply, Request
from tests.support.junk import JUNK_KINDS
from tools.fuzz.target import Target

LIMIT = 4096
IN_FLIGHT = 8
OUR_ID = re.compile(rb'"id":([1-8])\b')


class Wire:
    """Two peers hear the same bytes, one whole, one in pieces."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._whole: Peer[int] = Peer(limit=LIMIT)
        self._pieces: Peer[int] = Peer(limit=LIMIT)
        self._waiting: list[int] = []
        self._calls = 0

    def take(self, frame: bytes) -> None:
        self._call()
        # The corpus answers calls 1 to 8: let it mean the eight that are in flight.
        frame = OUR_ID.sub(lambda found: b'"id":%d' % self._waiting[int(found[1]) - 1], frame)
        # Every eighth newline is missing: two frames run into one line.
        chunk = frame + (b"\n" if self._rng.random() < 0.875 else b"")
        whole = list(self._whole.receive(chunk))
        pieces = [message for piece in self._cut(chunk) for message in self._pieces.receive(piece)]
        if whole != pieces:
            raise AssertionError(f"cutting changed the messages: {whole} != {pieces}")
        for message in whole:
            self._judge(message)
        if self._whole.pending != len(self._waiting):
            raise AssertionError(f"{self._whole.pending} calls are pending, not {len(self._waiting)}")

    def end(self) -> None:
        if self._whole.close("the walk is over") != sorted(self._waiting):
            raise AssertionError("close gave back other calls than those that waited")
        if self._whole.close("again"):
            raise AssertionError("a call was given back twice")

    def _call(self) -> None:
        if self._waiting and self._rng.random() < 0.01:
            given_up = self._waiting.pop(self._rng.randrange(len(self._waiting)))
            for peer in (self._whole, self._pieces):
                peer.forget(given_up)
        while len(self._waiting) < IN_FLIGHT:
            self._calls += 1
            self._waiting.append(self._calls)
            for peer in (self._whole, self._pieces):
                peer.call("session/prompt", {}, self._calls)

    def _cut(self, chunk: bytes) -> list[bytes]:
        edges = [0, *sorted(self._rng.randrange(len(chunk) + 1) for _ in range(self._rng.randrange(4))), len(chunk)]
        return [chunk[start:end] for start, end in pairwise(edges)]

    def _judge(self, message: Incoming[int]) -> None:
        match message:
            case Reply(token=token):
                self._waiting.remove(token)  # raises when it was settled before
            case Junk(kind=kind, answer=answer):
                if kind not in JUNK_KINDS:
                    raise AssertionError(f"{kind} is no bounded label")
                if answer is not None and not answer.endswith(b"\n"):
                    raise AssertionError("an answer is a line")
            case Request(id=request_id):
                decode(self._whole.reply(request_id, None))
            case _:
                pass


TARGET = Target("wire", "wire", Wire)
