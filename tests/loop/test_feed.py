"""Readers of one stream: each from its place on, what has piled up many at a time, a comment where nothing comes."""

import asyncio
from dataclasses import dataclass, field

import pytest

from ostler.gateway.http.feed import AT_ONCE, KEEPALIVE, Feed
from ostler.gateway.http.frames import chunks_of, frames_of
from tests.support.waiting import soon

LONG, SHORT = 60.0, 0.01


@dataclass
class Track:
    """A road that keeps what it carries."""

    clear: bool = True
    broken: bool = False
    carried: list[bytes] = field(default_factory=list)

    def free(self) -> bool:
        return self.clear

    def carry(self, frames: bytes) -> None:
        if self.broken:
            raise ConnectionError("no road")
        self.carried.append(frames)


async def test_a_reader_takes_what_has_piled_up_and_ends_with_the_stream() -> None:
    feed = Feed()
    early, late = feed.follow(0, LONG), feed.follow(2, LONG)
    waiting = asyncio.ensure_future(anext(early))
    await asyncio.sleep(0)
    feed.write(b"a")
    assert await soon(waiting, "the first frame") == b"a"
    feed.write(b"b")
    feed.write(b"c")
    assert await soon(anext(early), "the others") == b"bc"
    assert await soon(anext(late), "the third one") == b"c"
    waiting = asyncio.ensure_future(anext(early))
    await asyncio.sleep(0)
    feed.close()
    with pytest.raises(StopAsyncIteration):
        await soon(waiting, "the end")
    assert [piece async for piece in feed.follow(0, LONG)] == [b"abc"]


async def test_silence_is_told_again_and_again_and_what_comes_is_not_lost() -> None:
    feed = Feed()
    reader = feed.follow(0, SHORT)
    for _ in range(3):
        assert await soon(anext(reader), "a sign of life") == KEEPALIVE
    feed.write(b"a")
    assert await soon(anext(reader), "the frame") == b"a"
    assert await soon(anext(reader), "another sign of life") == KEEPALIVE


async def test_who_leaves_is_not_waited_for() -> None:
    feed = Feed()
    reader = feed.follow(0, LONG)
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    waiting.cancel()
    reader.close()
    reader.close()
    feed.write(b"a")
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await soon(anext(reader), "who comes back has lost nothing") == b"a"


async def test_pieces_become_frames_by_the_mould_of_their_text_wherever_a_reader_begins() -> None:
    feed = Feed()
    said, thought = (chunks_of({name: ""}, name) for name in ("said", "thought"))
    feed.write(b"head ")
    feed.append_delta(thought, "hm")
    feed.append_delta(said, "a")
    feed.append_delta(said, '"b"')
    feed.write(b"tail")
    feed.append_delta(thought, "c")
    feed.close()
    whole = b"".join([piece async for piece in feed.follow(0, LONG)])
    frames = [b"head ", b'data: {"thought":"hm"}\n\n', b'data: {"said":"a"}\n\n', b'data: {"said":"\\"b\\""}\n\n']
    assert whole == b"".join([*frames, b"tail", b'data: {"thought":"c"}\n\n'])
    for place in range(6):
        rest = b"".join([piece async for piece in feed.follow(place, LONG)])
        assert rest == b"".join([*frames, b"tail", b'data: {"thought":"c"}\n\n'][place:])


async def test_who_is_far_behind_takes_so_many_at_a_time_with_their_numbers() -> None:
    feed = Feed()
    mould = frames_of("delta", {}, "text")
    for _ in range(AT_ONCE * 2 + 1):
        feed.append_delta(mould, "x")
    feed.close()
    taken = [piece.count(b"\n\n") async for piece in feed.follow(0, LONG)]
    assert taken == [AT_ONCE, AT_ONCE, 1]
    last = [piece async for piece in feed.follow(AT_ONCE * 2, LONG)]
    assert last == [b'event: delta\ndata: {"type":"delta","sequence_number":1024,"text":"x"}\n\n']


async def test_with_a_road_what_comes_together_is_sent_as_one_and_nobody_is_woken() -> None:
    feed, road = Feed(), Track()
    reader = feed.follow(0, LONG)
    reader.fast_path = road
    mould = frames_of("delta", {}, "text")
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    for piece in ("a", "b"):
        feed.append_delta(mould, piece)
    assert road.carried == []
    await asyncio.sleep(0)
    feed.append_delta(mould, "c")
    await asyncio.sleep(0)
    assert [piece.count(b"\n\n") for piece in road.carried] == [2, 1]
    assert not waiting.done()
    feed.append_delta(mould, "d")
    feed.close()
    road.carried.append(await soon(waiting, "the end is for whoever waits"))
    assert b"".join(road.carried) == b"".join(mould(number, piece) for number, piece in enumerate("abcd"))
    with pytest.raises(StopAsyncIteration):
        await anext(reader)


async def test_where_the_road_is_not_free_whoever_waits_takes_the_pieces_and_the_feed_keeps_the_rest() -> None:
    feed, road = Feed(), Track(clear=False)
    reader = feed.follow(0, LONG)
    reader.fast_path = road
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    feed.write(b"a")
    assert await soon(waiting, "what could not be sent") == b"a"
    feed.write(b"b")
    feed.write(b"c")
    await asyncio.sleep(0)
    road.clear = True
    assert await soon(anext(reader), "what came while nobody waited") == b"bc"
    assert road.carried == []
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    feed.write(b"d")
    feed.close()
    assert await soon(waiting, "the last one") == b"d"


async def test_more_than_is_taken_at_once_is_left_to_whoever_can_wait() -> None:
    feed, road = Feed(), Track()
    reader = feed.follow(0, LONG)
    reader.fast_path = road
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    for _ in range(AT_ONCE + 1):
        feed.write(b"x")
    assert await soon(waiting, "the rest") == b"x"
    assert road.carried == [b"x" * AT_ONCE]


async def test_a_broken_road_wakes_whoever_waits_and_loses_nothing() -> None:
    feed, road = Feed(), Track(broken=True)
    reader = feed.follow(0, LONG)
    reader.fast_path = road
    loop, told = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    feed.write(b"a")
    assert await soon(waiting, "what was not carried") == b"a"
    assert [str(error) for error in told] == ["no road"]


async def test_silence_is_told_to_whoever_waits_also_with_a_road() -> None:
    feed, road = Feed(), Track()
    reader = feed.follow(0, SHORT)
    reader.fast_path = road
    assert await soon(anext(reader), "a sign of life") == KEEPALIVE
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    feed.write(b"a")
    assert await soon(waiting, "another one") == KEEPALIVE
    assert road.carried == [b"a"]


async def test_an_empty_frame_is_not_carried() -> None:
    """An empty chunk is the end of a body."""
    feed, road = Feed(), Track()
    reader = feed.follow(0, LONG)
    reader.fast_path = road
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    feed.write(b"")
    await asyncio.sleep(0)
    feed.close()
    with pytest.raises(StopAsyncIteration):
        await soon(waiting, "the end")
    assert road.carried == []
