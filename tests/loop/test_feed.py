"""Readers of one stream: each from its place on, all that has piled up in one piece, a comment where nothing comes."""

import asyncio

import pytest

from ostler.gateway.api.feed import KEEPALIVE, Feed
from tests.support.waiting import soon

LONG, SHORT = 60.0, 0.01


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
