"""All configured tool servers, and the ones that one session sees.

Rules: a server is started once per gateway, however many sessions use it, unless it is `per_session`: then it starts
with the session and ends with it. A session sees only the servers that its provider and its key are allowed to see. A
server's tools never replace a tool that the session already has.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence

from ostler.bridge.offer import Offer
from ostler.bridge.upstreams.remote import Connect, default_connect
from ostler.bridge.upstreams.settings import UpstreamSettings
from ostler.bridge.upstreams.upstream import Upstream, UpstreamDeps
from ostler.metrics.loops import Loops
from ostler.wire.json import JsonObject

logger = logging.getLogger(__name__)


class SessionUpstreams:
    """The tool servers of one session. Close it when the session ends."""

    def __init__(self, shared: Sequence[Upstream], own: Sequence[Upstream], closed: Callable[[], None]) -> None:
        self._own = own
        self._closed = closed
        self._all = (*shared, *own)

    def offers(self, taken: Iterable[str] = ()) -> list[Offer]:
        """The current tools of these servers, without names in `taken`: those belong to other tools of the session."""
        names = set(taken)
        offers: list[Offer] = []
        for upstream in self._all:
            definitions: list[JsonObject] = []
            for each in upstream.definitions:
                if each["name"] in names:
                    logger.warning("tool %s of server %s is hidden: taken", each["name"], upstream.settings.name)
                    continue
                names.add(each["name"])
                definitions.append(each)
            offers.append(Offer(definitions, upstream.call))
        return offers

    async def close(self) -> None:
        await _all(each.stop() for each in self._own)
        self._closed()


class Upstreams:
    """Starts the shared servers, and creates the servers of single sessions."""

    def __init__(
        self,
        settings: Sequence[UpstreamSettings],
        *,
        connect: Connect | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
        loops: Loops | None = None,
    ) -> None:
        for each in settings:
            each.check()
        self._settings = tuple(settings)
        watched = Loops() if loops is None else loops
        self._deps = (
            UpstreamDeps(connect or default_connect(settings[0].name), clock, draw, watched) if settings else None
        )
        self._shared = [self._new_upstream(each) for each in settings if not each.per_session]
        self._own: set[Upstream] = set()

    @property
    def shared(self) -> Sequence[Upstream]:
        return tuple(self._shared)

    @property
    def own(self) -> Sequence[Upstream]:
        """The running servers of single sessions."""
        return tuple(self._own)

    async def start(self) -> None:
        """Start all shared servers and wait for the first attempt of each. A failed one is retried in background."""
        for upstream in self._shared:
            upstream.start()
        await _all(upstream.tried() for upstream in self._shared)

    async def stop(self) -> None:
        await _all(upstream.stop() for upstream in (*self._shared, *self._own))
        self._own.clear()

    async def open(self, *, provider: str, session: str) -> SessionUpstreams:
        """The servers this session may see. Those of its own are started and tried once before this returns."""
        allowed = [each for each in self._settings if each.serves(provider=provider, session=session)]
        own = [self._new_upstream(each) for each in allowed if each.per_session]
        shared = [each for each in self._shared if each.settings in allowed]
        self._own.update(own)
        try:
            for upstream in own:
                upstream.start()
            await _all(upstream.tried() for upstream in own)
        except asyncio.CancelledError:
            try:
                await _all(upstream.stop() for upstream in own)
            finally:
                self._own.difference_update(own)
            raise
        return SessionUpstreams(shared, own, closed=lambda: self._own.difference_update(own))

    def _new_upstream(self, settings: UpstreamSettings) -> Upstream:
        assert self._deps is not None  # noqa: S101 - with settings there are dependencies; narrows the type
        return Upstream(settings, self._deps)


async def _all(waiting: Iterable[Coroutine[object, object, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for each in waiting:
            group.create_task(each)
