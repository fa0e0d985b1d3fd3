"""The tools that a session's agent gets: its client's functions, ours, and those of configured tool servers.

Rules:
- A name belongs to the first that has it, in this order; whatever it hides is not shown.
- What a session has is looked at when a turn begins, and holds for that turn. A client's function parks at the turn's
  desk; ours and the servers' run here, and the agent tells of them as of any tool it used.
- A call carries the session of its binding (`SessionContext`); there is no "current" session.
- Servers that are shared start in the background and are waited for by the first turn that may use them.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from ostler.bridge.offer import Offer, combined
from ostler.bridge.session_facts import SessionFacts
from ostler.bridge.threads import Threads
from ostler.bridge.tool import Tool
from ostler.bridge.toolbelt import NO_SERVICES, Toolbelt
from ostler.bridge.upstreams.shared import SessionUpstreams, Upstreams
from ostler.gateway.model.session_context import SessionContext
from ostler.gateway.turns.keep_alive import KeepAliveDispatcher
from ostler.wire.json import JsonObject

log = logging.getLogger(__name__)


NOBODY: Final = "nobody"
"""In place of a session's id where tools are only looked at."""

ToolSource: TypeAlias = Callable[[SessionContext], Iterable[Tool]]
BoundSource: TypeAlias = Callable[[SessionContext], Awaitable[Iterable[Tool]]]
"""Of tools that are made for one session and know it (those of memory)."""


class SessionTools:
    """What one session has besides its client's functions."""

    def __init__(self, belt: Toolbelt | None = None, servers: SessionUpstreams | None = None) -> None:
        self._belt = belt
        self._servers = servers

    def kit(self, functions: Offer, beat: Callable[[], None], every: float) -> Offer:
        """Everything for one turn. `beat` is called every so often while a tool of ours works."""
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
        """End the servers that were this session's own."""
        if self._servers is not None:
            await self._servers.close()


NOTHING: Final = SessionTools()


class ToolsetFactory:
    """Where outfits are made. One per gateway."""

    def __init__(
        self,
        sources: Sequence[ToolSource] = (),
        *,
        wanted: Sequence[str] = (),
        of_memory: Sequence[BoundSource] = (),
        services: Mapping[type, object] = NO_SERVICES,
        upstreams: Upstreams | None = None,
    ) -> None:
        """`wanted` are patterns for the names of our own tools; those of memory are not asked for by name, and go
        to conversations that have one."""
        self._sources = sources if wanted else ()
        self._wanted = wanted
        self._of_memory = of_memory
        self._services = services
        self._upstreams = upstreams
        self._threads = Threads()

    async def usual(self, *, remembered: bool) -> tuple[JsonObject, ...]:
        """The tools of a session that brings no functions of its own, as far as no server adds to them: seats that are
        kept ready are opened with these."""
        belt = await self._belt(SessionContext(SessionFacts(session_id=NOBODY), ""), remembered=remembered)
        return () if belt is None else tuple(belt.offer.definitions)

    async def outfit(self, context: SessionContext, *, remembered: bool) -> SessionTools:
        """What this session gets; close it when the session ends."""
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
