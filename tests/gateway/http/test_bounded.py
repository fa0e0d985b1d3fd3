"""A body in pieces: `receive` answers what is next, or never; the times of its pieces are numbers."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.types import Message

from ostler.gateway.http.bounded import SLOWEST, BodyTooLarge, BodyTooSlow, Pace, TooManyValues, bounded

PATIENT = 20.0


class Client:
    """Sends these pieces, and then nothing; the last may be the end."""

    def __init__(self, *pieces: Message) -> None:
        self._pieces: Iterator[Message] = iter(pieces)

    async def receive(self) -> Message:
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


def cut_off(*pieces: tuple[float, int]) -> float | None:
    """When it is, if it sends so many bytes at these times and has thirty seconds; None: all came in time."""
    pace = Pace(30.0, 0.0)
    for at, size in pieces:
        if at > pace.until:
            return pace.until
        pace.came(size, at)
    return None


def test_a_byte_now_and_then_buys_no_time() -> None:
    assert cut_off(*[(float(at), 1) for at in range(100)]) == pytest.approx(30.0, abs=0.1)


def test_much_at_once_buys_no_silence() -> None:
    assert cut_off((1.0, 10_000_000), (60.0, 1)) == 31.0


def test_what_keeps_coming_at_the_slowest_speed_has_as_long_as_it_takes() -> None:
    assert cut_off(*[(float(at), SLOWEST) for at in range(10_000)]) is None


def test_what_comes_at_half_of_it_is_cut_off_in_the_end() -> None:
    assert cut_off(*[(float(at), SLOWEST // 2) for at in range(1_000)]) == pytest.approx(60.0, abs=1.0)


async def test_after_the_whole_body_there_is_no_limit_of_time() -> None:
    receive = bounded(Client(part(b"ab", more=False)).receive, 10, 0.02)
    await receive()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(receive(), 0.1)


async def test_n30_a_body_of_too_many_values_is_told_so_before_it_is_whole() -> None:
    receive = bounded(Client(part(b"[0,0,"), part(b"0,0,"), part(b"0]", more=False)).receive, 100, PATIENT, 4)
    await receive()
    with pytest.raises(TooManyValues, match=r"more than 4 JSON values; .* gateway.body_values"):
        await receive()


async def test_n30_a_body_of_one_long_text_has_one_value() -> None:
    pieces = [part(b'"a, [b], '), part(b'{c}, \\", ['), part(b']"', more=False)]
    receive = bounded(Client(*pieces).receive, 100, PATIENT, 2)
    assert [await receive() for _ in pieces] == pieces
