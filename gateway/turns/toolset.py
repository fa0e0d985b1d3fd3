"""The tools of a session's agent: the functions of its client, the gateway's own, and those of configured tool servers.

Rules:
- A name belongs to the first owner in this order; a later tool of the same name is not shown.
- The tools of a session are determined when a turn begins, and stay for that turn. A client's function parks at the
  turn's `PendingCalls`; the others run here, and the agent reports them like any tool it used.
- A call names the session of its binding (`SessionContext`); there is no "current" session.
- Shared servers start in the background; the first turn that may use them waits for them.
- While one of the gateway's own tools works, signs of life go into the turn: without them the inactivity limit would
  take the agent for silent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from ostler.bridge.calls import CallResult, Dispatcher, ToolCall
from ostler.bridge.offer import Offer, combined
from ostler.bridge.session_facts import SessionFacts
from ostler.bridge.threads import Threads
from ostler.bridge.tool import Tool
from ostler.bridge.toolbelt import NO_SERVICES, Toolbelt
from ostler.bridge.upstreams.shared import SessionUpstreams, Upstreams
from ostler.gateway.model.session_context import SessionContext
from ostler.wire.json import JsonObject

log = logging.getLogger(__name__)


NOBODY: Final = "nobody"
"""The session id when tools are only listed, for no real session."""

ToolSource: TypeAlias = Callable[[SessionContext], Iterable[Tool]]
BoundSource: TypeAlias = Callable[[SessionContext], Awaitable[Iterable[Tool]]]
"""A source of tools that are made for one session and know it (those of memory)."""


class SessionTools:
    """What one session has besides the functions of its client."""

    def __init__(self, belt: Toolbelt | None = None, servers: SessionUpstreams | None = None) -> None:
        self._belt = belt
        self._servers = servers

    def kit(self, functions: Offer, beat: Callable[[], None], every: float) -> Offer:
        """Return all tools for one turn. `beat` is called every `every` seconds while a tool of the gateway works."""
        if self._belt is None and self._servers is None:
            return functions
        taken = {str(each["name"]) for each in functions.definitions}
        ours: list[Offer] = []
        if self._belt is not None:
            offer = self._belt.offer
            shown = [each for each in offer.definitions if each["name"] not in taken]
            taken |= {str(each["name"]) for each in shown}
            ours.append(Offer(shown, offer.dispatcher))
        if self._servers is not None:
            ours += self._servers.offers(taken)
        own = combined(ours)
        return combined([functions, Offer(own.definitions, KeepAliveDispatcher(own.dispatcher, beat, every))])

    async def close(self) -> None:
        """Stop the tool servers that belong to this session alone."""
        if self._servers is not None:
            await self._servers.close()


NOTHING: Final = SessionTools()


class ToolsetFactory:
    """Makes the tools of sessions. One per gateway."""

    def __init__(
        self,
        sources: Sequence[ToolSource] = (),
        *,
        wanted: Sequence[str] = (),
        of_memory: Sequence[BoundSource] = (),
        services: Mapping[type, object] = NO_SERVICES,
        upstreams: Upstreams | None = None,
    ) -> None:
        """`wanted` are patterns for the names of the gateway's own tools. Memory tools are not selected by name: every
        conversation that has a memory gets them."""
        self._sources = sources if wanted else ()
        self._wanted = wanted
        self._of_memory = of_memory
        self._services = services
        self._upstreams = upstreams
        self._threads = Threads()

    async def usual(self, *, remembered: bool) -> tuple[JsonObject, ...]:
        """Return the tools of a session without functions of its own and without servers: seats that are kept ready are
        opened with these."""
        belt = await self._belt(SessionContext(SessionFacts(session_id=NOBODY), ""), remembered=remembered)
        return () if belt is None else tuple(belt.offer.definitions)

    async def session_tools(self, context: SessionContext, *, remembered: bool) -> SessionTools:
        """Return the tools of this session; the caller closes them when the session ends."""
        belt = await self._belt(context, remembered=remembered)
        if self._upstreams is None:
            return NOTHING if belt is None else SessionTools(belt)
        for upstream in self._upstreams.shared:
            await upstream.tried()
        provider = context.facts.provider or ""
        return SessionTools(belt, await self._upstreams.open(provider=provider, session=context.key))

    async def _belt(self, context: SessionContext, *, remembered: bool) -> Toolbelt | None:
        tools = [
            tool
            for source in self._sources
            for tool in source(context)
            if any(fnmatchcase(tool.name, pattern) for pattern in self._wanted)
        ]
        taken = {tool.name for tool in tools}
        for bound in self._of_memory if remembered else ():
            tools += [tool for tool in await bound(context) if tool.name not in taken]
        return Toolbelt(tools, threads=self._threads, services=self._services) if tools else None


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
