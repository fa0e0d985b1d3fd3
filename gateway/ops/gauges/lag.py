"""Measures the lag of the event loop: a timer is set again and again, and its delay is recorded.

Rules: it is a timer of the loop itself, in an empty context, so its delay is the delay that every turn has.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context

from ostler.metrics.loops import Loops

EVERY = 0.25


class LoopLag:
    """A repeating timer. Started and stopped with the gateway."""

    def __init__(self, observe: Callable[[float], None], every: float = EVERY, *, loops: Loops | None = None) -> None:
        self._observe = observe
        self._rounds = (loops or Loops()).add("the measuring of the event loop's lag")
        self._every = every
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Set the next timer."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._every
        self._next = loop.call_at(due, self._come, loop, due, context=Context())

    def stop(self) -> None:
        """Cancel the timer and end the measurement."""
        self._rounds.stopped()
        if self._next is not None:
            self._next.cancel()

    def _come(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        # A loop with millisecond resolution may run a timer a little early.
        with self._rounds.round():
            self._observe(max(0.0, loop.time() - due))
        self.start()
