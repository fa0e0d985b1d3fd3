"""How late the loop is: an appointment with it, again and again, and how late it came.

Rules: it is the loop's own timer, in an empty context; what a scrape sees of it is what every turn has felt.
"""

import asyncio
from contextvars import Context

from ostler.metrics.children import Spread
from ostler.metrics.loops import Loops

EVERY = 0.25


class LoopLag:
    """Started and stopped by `app.py`."""

    def __init__(self, into: Spread, every: float = EVERY, *, loops: Loops | None = None) -> None:
        self._into = into
        self._rounds = (loops or Loops()).add("the measuring of the event loop's lag")
        self._every = every
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Make the first appointment."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._every
        self._next = loop.call_at(due, self._come, loop, due, context=Context())

    def stop(self) -> None:
        """No more of them."""
        self._rounds.stopped()
        if self._next is not None:
            self._next.cancel()

    def _come(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        # A loop may count in whole milliseconds and come a little early.
        with self._rounds.round():
            self._into.observe(max(0.0, loop.time() - due))
        self.start()
