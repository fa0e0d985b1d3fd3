"""Signs of life while the gateway's own tools work: without them the inactivity limit would take the agent for
silent."""

import asyncio
from collections.abc import Callable

from ostler.bridge.calls import CallResult, Dispatcher, ToolCall


class KeepAliveDispatcher:
    """A dispatcher that calls `beat` at an interval as long as one of its calls runs."""

    def __init__(self, inner: Dispatcher, beat: Callable[[], None], every: float) -> None:
        self._inner = inner
        self._beat = beat
        self._every = every
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, call: ToolCall, /) -> CallResult:
        self._running += 1
        if self._timer is None:
            self._wait()
        try:
            return await self._inner(call)
        finally:
            self._running -= 1
            if not self._running and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._every, self._again)

    def _again(self) -> None:
        self._beat()
        self._wait()
