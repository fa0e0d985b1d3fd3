"""Runs calls: one task each, in the ambient context of the publication that the call began with.

Rules: every result of a tool (an exception, a timeout, a wrong type) becomes an answer for its own caller only. A call
that was ended gets no answer from here. The tasks are held in one table, and `stop` waits for all of them.
"""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context

from ostler.bridge.binding import Binding, BoundCall
from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.reports import Reports
from ostler.bridge.stats import Stats
from ostler.wire.redaction import excerpt

logger = logging.getLogger(__name__)

ERROR_TEXT_LIMIT = 2000


class Runner:
    """Runs the tool calls of all bindings, with a deadline for each."""

    __slots__ = ("_cancelled", "_clock", "_deadline", "_stats", "_tasks")

    def __init__(self, *, deadline: float, clock: Callable[[], float], stats: Stats) -> None:
        self._deadline = deadline
        self._clock = clock
        self._stats = stats
        self._tasks: dict[BoundCall, asyncio.Task[None]] = {}
        self._cancelled: set[asyncio.Task[None]] = set()

    def start(self, binding: Binding, call: BoundCall) -> None:
        task = asyncio.get_running_loop().create_task(self._run(binding, call), context=call.ambient.copy())
        self._tasks[call] = task
        self._stats.calls += 1
        self._stats.calls_running += 1

    def cancel(self, call: BoundCall) -> None:
        # Removed here and not by the task: a task that is cancelled before its first step never runs.
        task = self._tasks.pop(call, None)
        if task is not None:
            self._stats.calls_running -= 1
            self._stats.calls_ended += 1
            self._cancelled.add(task)
            task.add_done_callback(self._cancelled.discard)
            task.cancel()

    async def stop(self, patience: float) -> None:
        """Cancel all calls and wait `patience` seconds. Calls that ignore the cancellation are counted in the log."""
        for call in tuple(self._tasks):
            self.cancel(call)
        if self._cancelled:
            _, stuck = await asyncio.wait(self._cancelled, timeout=patience)
            if stuck:
                logger.error("%d tool calls do not end although they were cancelled", len(stuck))

    async def _run(self, binding: Binding, call: BoundCall) -> None:
        started = self._clock()
        try:
            result = await self._result(call)
        finally:
            self._stats.call_seconds += self._clock() - started
        if self._tasks.pop(call, None) is None:
            return
        self._stats.calls_running -= 1
        self._stats.calls_failed += result.is_error
        if binding.finish(call):
            call.origin.answer(call, result)

    async def _result(self, call: BoundCall) -> CallResult:
        reports = Reports(call)
        shown = ToolCall(call.name, call.arguments, call.call_id, call.context, reports.progress, reports.log)
        try:
            async with asyncio.timeout(None) as limit:
                # In an empty context: a cancelled timer stays in the loop's heap until it is due, and would keep the
                # session of the call in memory for up to an hour.
                Context().run(limit.reschedule, asyncio.get_running_loop().time() + self._deadline)
                result: object = await call.dispatcher(shown)
        except TimeoutError as error:
            if limit.expired():
                return CallResult.error(f"{call.name} did not finish within {self._deadline:g} s and was stopped")
            return _failure(call, error)
        except asyncio.CancelledError as error:
            if call not in self._tasks:
                raise
            # Not cancelled by the runner: a task that the tool awaited was cancelled. The caller still waits for an
            # answer.
            return _failure(call, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool may raise anything; its caller is answered
            return _failure(call, error)
        if isinstance(result, CallResult):
            return result
        return CallResult.error(f"{call.name} failed: it returned {type(result).__name__} instead of a result")


def _failure(call: BoundCall, error: BaseException) -> CallResult:
    text = excerpt(f"{call.name} failed: {type(error).__name__}: {error}", ERROR_TEXT_LIMIT)
    logger.warning("tool call failed: %s", text)
    return CallResult.error(text)
