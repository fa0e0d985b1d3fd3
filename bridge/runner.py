"""Runs calls: one task each, in the ambient context of the publication that the call began with.

Rules: whatever a tool does (raise, hang, return nonsense) becomes an answer for its own caller and for nobody else.
A call that was ended gets no answer from here. The tasks are held in one table, and `stop` waits for all of them.
"""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from functools import partial

from ostler.bridge.binding import Binding, Call
from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.redaction import redacted
from ostler.bridge.stats import Stats

logger = logging.getLogger(__name__)

ERROR_TEXT_LIMIT = 2000


class Runner:
    __slots__ = ("_clock", "_deadline", "_stats", "_tasks")

    def __init__(self, *, deadline: float, clock: Callable[[], float], stats: Stats) -> None:
        self._deadline = deadline
        self._clock = clock
        self._stats = stats
        self._tasks: dict[Call, asyncio.Task[None]] = {}

    def start(self, binding: Binding, call: Call) -> None:
        task = asyncio.get_running_loop().create_task(self._run(binding, call), context=call.ambient.copy())
        self._tasks[call] = task
        self._stats.calls += 1
        self._stats.calls_running += 1

    def cancel(self, call: Call) -> None:
        task = self._tasks.get(call)
        if task is not None:
            self._stats.calls_ended += 1
            task.cancel()

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, binding: Binding, call: Call) -> None:
        started = self._clock()
        try:
            result = await self._result(call)
        finally:
            del self._tasks[call]
            self._stats.calls_running -= 1
            self._stats.call_seconds += self._clock() - started
        if result.is_error:
            self._stats.calls_failed += 1
        if binding.finish(call):
            call.origin.answer(call, result)

    async def _result(self, call: Call) -> CallResult:
        try:
            async with asyncio.timeout(None) as limit:
                # In an empty context: a cancelled timer stays in the heap of the loop until its time has come, and for an
                # hour it would hold the session that the call was made for.
                Context().run(limit.reschedule, asyncio.get_running_loop().time() + self._deadline)
                return await call.dispatcher(
                    ToolCall(
                        call.name,
                        call.arguments,
                        call.call_id,
                        call.context,
                        partial(call.origin.progress, call),
                        partial(call.origin.log, call),
                    )
                )
        except TimeoutError as error:
            if limit.expired():
                return CallResult.error(f"{call.name} did not finish within {self._deadline:g} s and was stopped")
            return _failure(call, error)
        except Exception as error:  # noqa: BLE001 - a tool may raise anything; it is an answer to its own caller
            return _failure(call, error)


def _failure(call: Call, error: Exception) -> CallResult:
    text = redacted(f"{call.name} failed: {type(error).__name__}: {error}"[:ERROR_TEXT_LIMIT])
    logger.warning("tool call failed: %s", text)
    return CallResult.error(text)
