"""The tools of one session: a dispatcher that enforces their limits.

Rules: a toolbelt belongs to one session, so its limits count that session's calls only; the tools, the services and the
threads are shared. The timeout covers waiting for a place and running, each. A sync function that overran its timeout
cannot be stopped, only abandoned: its place, and its part of the session's share of threads, stay taken until it
returns.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.errors import DuplicateTool, UnknownTool
from ostler.bridge.offer import Offer
from ostler.bridge.threads import Job, Threads
from ostler.bridge.tool import Services, Tool, ToolOutcome

NO_SERVICES: Final[Services] = MappingProxyType({})


class Toolbelt:
    """The dispatcher of one session's tools."""

    __slots__ = ("_abandoned", "_places", "_services", "_share", "_threads", "_tools")

    def __init__(self, tools: Iterable[Tool], *, threads: Threads, services: Services = NO_SERVICES) -> None:
        self._tools = by_name(tools)
        self._threads = threads
        self._services = services
        self._places: dict[str, asyncio.Semaphore] = {}
        self._share = asyncio.Semaphore(threads.share)
        self._abandoned: set[asyncio.Task[CallResult]] = set()

    @property
    def offer(self) -> Offer:
        return Offer(tuple(each.definition for each in self._tools.values()), self)

    async def __call__(self, call: ToolCall, /) -> CallResult:
        tool = self._tools.get(call.name)
        if tool is None:
            return CallResult.error(str(UnknownTool(call.name)))
        places = self._places.setdefault(tool.name, asyncio.Semaphore(tool.concurrency))
        if not await _taken(places, tool.timeout):
            return CallResult.error(_crowded(tool, f"{tool.concurrency} calls of {tool.name}"))
        if tool.is_async:
            return await self._run(tool, call, places.release)
        try:
            got_thread = await _taken(self._share, tool.timeout)
        except asyncio.CancelledError:
            places.release()
            raise
        if not got_thread:
            places.release()
            return CallResult.error(_crowded(tool, f"{self._threads.share} calls that need a thread"))

        def release() -> None:
            places.release()
            self._share.release()

        return await self._run(tool, call, release)

    async def _run(self, tool: Tool, call: ToolCall, release: Callable[[], None]) -> CallResult:
        """Run the tool in a task of its own, because a thread must be awaited even when its caller no longer waits."""
        jobs: list[Job[ToolOutcome]] = []

        def in_thread(work: Callable[[], ToolOutcome]) -> Awaitable[ToolOutcome]:
            job = self._threads.send(work)
            jobs.append(job)
            return asyncio.wrap_future(job.outcome)

        running = asyncio.get_running_loop().create_task(tool.run(call, services=self._services, in_thread=in_thread))
        running.add_done_callback(lambda _: release())
        try:
            done, _ = await asyncio.wait([running], timeout=tool.timeout)
        except asyncio.CancelledError:
            self._leave(running, jobs)
            raise
        if not done:
            self._leave(running, jobs)
            return CallResult.error(f"{tool.name} did not finish within {tool.timeout:g} s and was stopped")
        return running.result()

    def _leave(self, running: "asyncio.Task[CallResult]", jobs: list[Job[ToolOutcome]]) -> None:
        """Give up a run that its caller no longer awaits. The set keeps a reference to the task until it is done."""
        self._abandoned.add(running)
        running.add_done_callback(self._abandoned.discard)
        running.add_done_callback(_forgotten)
        for job in jobs:
            self._threads.give_up(job)
        if not jobs:
            running.cancel()


def by_name(tools: Iterable[Tool]) -> Mapping[str, Tool]:
    found: dict[str, Tool] = {}
    for each in tools:
        if each.name in found:
            raise DuplicateTool(each.name)
        found[each.name] = each
    return found


async def _taken(places: asyncio.Semaphore, patience: float) -> bool:
    """Acquire a place; False when none became free in time."""
    if not places.locked():
        return await places.acquire()  # without a timer, as it does not wait
    try:
        # Not `wait_for`: in Python 3.11 it loses a cancellation that arrives together with the place.
        async with asyncio.timeout(patience):
            return await places.acquire()
    except TimeoutError:
        return False


def _crowded(tool: Tool, who: str) -> str:
    return f"{who} are running in this session and none ended within {tool.timeout:g} s; wait for one to finish"


def _forgotten(task: "asyncio.Task[CallResult]") -> None:
    """Read the exception so that asyncio does not log it: the caller was told that the call was stopped."""
    if not task.cancelled():
        task.exception()
