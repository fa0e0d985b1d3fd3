"""Readers of one answer: each from its place on, what has piled up many at a time, a comment where nothing comes."""

import asyncio
from dataclasses import dataclass, field

import pytest

from ostler.gateway.http.frames import frame
from ostler.gateway.http.streaming import KEEPALIVE, Reader
from ostler.gateway.turns.answer import AT_ONCE, AnswerStream
from ostler.pool.events import Usage
from tests.support.answers import deltas, end, said, say
from tests.support.waiting import soon

LONG, SHORT = 60.0, 0.01


@dataclass
class Track:
    """A fast path that keeps what it carries."""

    clear: bool = True
    broken: bool = False
    carried: list[bytes] = field(default_factory=list)

    def free(self) -> bool:
        return self.clear

    def carry(self, frames: bytes) -> None:
        if self.broken:
            raise ConnectionError("no road")
        self.carried.append(frames)


def reading(answer: AnswerStream, start: int = 0, patience: float = LONG, path: Track | None = None) -> Reader:
    reader = Reader(answer, deltas(start), patience)
    reader.fast_path = path
    return reader


def last(number: int) -> bytes:
    return frame("last", number, {})


async def test_a_reader_takes_what_has_piled_up_and_ends_with_the_answer() -> None:
    answer = AnswerStream("a_1")
    early, late = reading(answer), reading(answer, 2)
    waiting = asyncio.ensure_future(anext(early))
    await asyncio.sleep(0)
    say(answer, "a")
    assert await soon(waiting, "the first frame") == said("a")
    say(answer, "b", "c")
    assert await soon(anext(early), "the others") == said("b", "c", start=1)
    assert await soon(anext(late), "the third one") == said("c", start=2)
    waiting = asyncio.ensure_future(anext(early))
    await asyncio.sleep(0)
    end(answer)
    assert await soon(waiting, "the end") == last(3)
    with pytest.raises(StopAsyncIteration):
        await anext(early)
    assert [piece async for piece in reading(answer)] == [said("a", "b", "c") + last(3)]


async def test_silence_is_told_again_and_again_and_what_comes_is_not_lost() -> None:
    answer = AnswerStream("a_1")
    reader = reading(answer, patience=SHORT)
    for _ in range(3):
        assert await soon(anext(reader), "a sign of life") == KEEPALIVE
    say(answer, "a")
    assert await soon(anext(reader), "the frame") == said("a")
    assert await soon(anext(reader), "another sign of life") == KEEPALIVE


async def test_another_transport_has_another_sign_of_life() -> None:
    reader = Reader(AnswerStream("a_1"), deltas(), SHORT, b"ping")
    assert await soon(anext(reader), "a sign of life") == b"ping"


async def test_a_reader_that_leaves_is_not_waited_for_and_loses_nothing() -> None:
    answer = AnswerStream("a_1")
    reader = reading(answer)
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    waiting.cancel()
    reader.close()
    reader.close()
    say(answer, "a")
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await soon(anext(reader), "what came meanwhile") == said("a")


async def test_a_reader_that_begins_anywhere_gets_the_rest_of_the_same_frames() -> None:
    answer = AnswerStream("a_1")
    say(answer, *"abcd")
    end(answer)
    frames = [*(said(piece, start=number) for number, piece in enumerate("abcd")), last(4)]
    for place in range(7):
        assert b"".join([piece async for piece in reading(answer, place)]) == b"".join(frames[place:])


async def test_a_reader_that_is_far_behind_takes_so_many_at_a_time_with_their_numbers() -> None:
    answer = AnswerStream("a_1")
    say(answer, *"x" * (AT_ONCE * 2))
    end(answer)
    taken = [piece.count(b"\n\n") async for piece in reading(answer)]
    assert taken == [AT_ONCE - 1, AT_ONCE, 2], "the beginning and the end of the item have no frames here"
    assert [piece async for piece in reading(answer, AT_ONCE * 2)] == [last(AT_ONCE * 2)]


async def test_with_a_fast_path_what_comes_together_is_sent_as_one_and_nothing_is_woken() -> None:
    answer, path = AnswerStream("a_1"), Track()
    reader = reading(answer, path=path)
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    say(answer, "a", "b")
    assert path.carried == []
    await asyncio.sleep(0)
    say(answer, "c")
    await asyncio.sleep(0)
    assert path.carried == [said("a", "b"), said("c", start=2)]
    assert not waiting.done()
    say(answer, "d")
    end(answer)
    assert await soon(waiting, "the end is for the iterator") == said("d", start=3) + last(4)
    with pytest.raises(StopAsyncIteration):
        await anext(reader)


async def test_where_the_fast_path_is_not_free_the_iterator_takes_the_pieces() -> None:
    answer, path = AnswerStream("a_1"), Track(clear=False)
    reader = reading(answer, path=path)
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    say(answer, "a")
    assert await soon(waiting, "what could not be sent") == said("a")
    say(answer, "b", "c")
    await asyncio.sleep(0)
    path.clear = True
    assert await soon(anext(reader), "what came while nothing waited") == said("b", "c", start=1)
    assert path.carried == []
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    say(answer, "d")
    end(answer)
    assert await soon(waiting, "the last one") == said("d", start=3) + last(4)


async def test_more_than_is_taken_at_once_is_left_to_the_iterator() -> None:
    answer, path = AnswerStream("a_1"), Track()
    say(answer, "first")
    reader = reading(answer, path=path)
    assert await soon(anext(reader), "the first") == said("first")
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    say(answer, *"x" * (AT_ONCE + 1))
    assert await soon(waiting, "the rest") == said("x", start=AT_ONCE + 1)
    assert path.carried == [said(*"x" * AT_ONCE, start=1)]


async def test_a_broken_fast_path_wakes_the_iterator_and_loses_nothing() -> None:
    answer, path = AnswerStream("a_1"), Track(broken=True)
    reader = reading(answer, path=path)
    loop, told = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    say(answer, "a")
    assert await soon(waiting, "what was not carried") == said("a")
    assert [str(error) for error in told] == ["no road"]
    say(answer, "b")
    assert await soon(anext(reader), "what comes after it") == said("b", start=1)


async def test_silence_is_told_to_the_iterator_also_with_a_fast_path() -> None:
    answer, path = AnswerStream("a_1"), Track()
    reader = reading(answer, patience=SHORT, path=path)
    assert await soon(anext(reader), "a sign of life") == KEEPALIVE
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    say(answer, "a")
    assert await soon(waiting, "another one") == KEEPALIVE
    assert path.carried == [said("a")]


async def test_events_without_frames_are_not_carried() -> None:
    """An empty chunk is the end of a body."""
    answer, path = AnswerStream("a_1"), Track()
    reader = reading(answer, path=path)
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    answer.start()
    answer.take(Usage(1, 2))
    await asyncio.sleep(0)
    end(answer)
    assert await soon(waiting, "the end") == last(0)
    assert path.carried == []
