"""Waiting with a deadline and a reason. A test that waits says for what, and fails with that sentence.

Rules: an event is awaited, never slept for. Only what the outside world does not announce (a process table, a file
that another program writes) is looked at again and again, by `eventually`, and there the look is cheap.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")
LOOK_EVERY = 0.02


@asynccontextmanager
async def within(seconds: float, what: str) -> AsyncIterator[None]:
    """Fail with `what` when the block takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise AssertionError(f"not within {seconds:g} s: {what}") from error


async def soon(awaitable: Awaitable[T], what: str, seconds: float = 300.0) -> T:
    """The value of an awaitable that must not take long."""
    async with within(seconds, what):
        return await awaitable


async def eventually(
    condition: Callable[[], object], what: str = "what another process was to do", seconds: float = 300.0
) -> None:
    """Wait until something outside, that sends no events, is so."""
    async with within(seconds, what):
        while not condition():  # noqa: ASYNC110 nothing outside tells us, so we look
            await asyncio.sleep(LOOK_EVERY)
