"""The tools of one session: a dispatcher that holds each of them to its limits.

Rules: a belt belongs to one session, so its limits count that session's calls only; the tools, the services and the
threads are shared. The timeout covers waiting for a place and running, each. A sync function that overran its timeout
cannot be stopped, only left: its place stays taken until its thread is back, so that one session can never hold more
threads than its tools allow.
"""

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from types import MappingProxyType
from typing import Final

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.errors import DuplicateTool, UnknownTool
from ostler.bridge.offer import Offer
from ostler.bridge.tool import Services, Tool

NO_SERVICES: Final[Services] = MappingProxyType({})


class Toolbelt:
    __slots__ = ("_executor", "_left", "_places", "_services", "_tools")

    def __init__(self, tools: Iterable[Tool], *, executor: Executor, services: Services = NO_SERVICES) -> None:
        self._tools = by_name(tools)
        self._executor = executor
        self._services = services
        self._places: dict[str, asyncio.Semaphore] = {}
        self._left: set[asyncio.Task[CallResult]] = set()

    @property
    def offer(self) -> Offer:
        return Offer(tuple(each.definition for each in self._tools.values()), self)

    async def __call__(self, call: ToolCall, /) -> CallResult:
        tool = self._tools.get(call.name)
        if tool is None:
            return CallResult.error(str(UnknownTool(call.name)))
        places = self._places.setdefault(tool.name, asyncio.Semaphore(tool.concurrency))
        if places.locked():
            try:
                await asyncio.wait_for(places.acquire(), tool.timeout)
            except TimeoutError:
                return CallResult.error(_crowded(tool))
        else:
            await places.acquire()  # at once: there is no need of a timer
        return await self._run(tool, call, places)

    async def _run(self, tool: Tool, call: ToolCall, places: asyncio.Semaphore) -> CallResult:
        """In a task of its own, because a thread must be waited for even when its caller no longer does."""
        running = asyncio.get_running_loop().create_task(
            tool.run(call, services=self._services, executor=self._executor)
        )
        running.add_done_callback(lambda _: places.release())
        try:
            done, _ = await asyncio.wait([running], timeout=tool.timeout)
        except asyncio.CancelledError:
            self._leave(tool, running)
            raise
        if not done:
            self._leave(tool, running)
            return CallResult.error(f"{tool.name} did not finish within {tool.timeout:g} s and was stopped")
        return running.result()

    def _leave(self, tool: Tool, running: "asyncio.Task[CallResult]") -> None:
        """Nobody waits for it any more. The set keeps hold of the task until it is over."""
        self._left.add(running)
        running.add_done_callback(self._left.discard)
        running.add_done_callback(_forgotten)
        if tool.is_async:
            running.cancel()


def by_name(tools: Iterable[Tool]) -> Mapping[str, Tool]:
    found: dict[str, Tool] = {}
    for each in tools:
        if each.name in found:
            raise DuplicateTool(each.name)
        found[each.name] = each
    return found


def _crowded(tool: Tool) -> str:
    return (
        f"{tool.concurrency} calls of {tool.name} are running in this session and none ended within "
        f"{tool.timeout:g} s; wait for one to finish"
    )


def _forgotten(task: "asyncio.Task[CallResult]") -> None:
    """Its exception was nobody's to see: the caller has been told that the call was stopped."""
    if not task.cancelled():
        task.exception()
