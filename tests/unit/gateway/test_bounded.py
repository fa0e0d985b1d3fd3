"""A body in virtual pieces: `receive` answers what is next, or never."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.types import Message

from ostler.gateway.api.bounded import BodyTooLarge, BodyTooSlow, bounded

PATIENT = 20.0


class Client:
    """Sends these pieces, one each `every` seconds, and then nothing; the last may be the end."""

    def __init__(self, *pieces: Message, every: float = 0.0) -> None:
        self._pieces: Iterator[Message] = iter(pieces)
        self._every = every

    async def receive(self) -> Message:
        await asyncio.sleep(self._every)
        if (piece := next(self._pieces, None)) is not None:
            return piece
        await asyncio.Event().wait()
        raise AssertionError


def part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_pieces_comes_through_whole() -> None:
    pieces = [part(b"ab"), part(b"cd"), part(b"", more=False), {"type": "http.disconnect"}]
    receive = bounded(Client(*pieces).receive, 4, PATIENT)
    assert [await receive() for _ in pieces] == pieces


async def test_a_body_that_grows_too_big_is_told_so() -> None:
    receive = bounded(Client(part(b"ab"), part(b"cd")).receive, 3, PATIENT)
    await receive()
    with pytest.raises(BodyTooLarge, match="larger than 3 bytes"):
        await receive()


async def test_a_body_whose_rest_stays_away_is_told_so() -> None:
    receive = bounded(Client(part(b"ab")).receive, 10, 0.05)
    await receive()
    with pytest.raises(BodyTooSlow, match="only 2 bytes"):
        await receive()


async def test_a_byte_now_and_then_buys_no_time() -> None:
    receive = bounded(Client(*[part(b"a")] * 1000, every=0.02).receive, 1000, 0.1, slowest=1000)
    came: list[Message] = []

    async def take_all() -> None:
        while True:
            came.append(await receive())

    with pytest.raises(BodyTooSlow):
        await take_all()
    assert 1 <= len(came) < 20


async def test_what_keeps_coming_at_the_slowest_speed_has_as_long_as_it_takes() -> None:
    pieces = [*[part(b"a" * 100)] * 10, part(b"", more=False)]
    receive = bounded(Client(*pieces, every=0.02).receive, 10_000, 0.05, slowest=1000)
    assert [await receive() for _ in pieces] == pieces


async def test_after_the_whole_body_there_is_no_limit_of_time() -> None:
    receive = bounded(Client(part(b"ab", more=False)).receive, 10, 0.02)
    await receive()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(receive(), 0.1)
