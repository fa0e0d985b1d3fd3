"""One provider of memory, and the thread that works for it: what happens in here stays in here.

Rules:
- Errands are done one after another, in the order they were posted. What one raises is one warning; the next is done.
- Only `prefetch` goes beside the errands, in threads of its own: a turn must not wait until earlier turns are written
  down. It does wait, within its limit, for a pending switch to the session that it asks for.
- A prefetch that is late is left: its turn goes on without it, and nobody is asked again until it has come back.
- The inbox is bounded. A provider that hangs loses errands, each with a warning, and not our memory. Its end is none
  of them: however many wait, `close` comes behind them.
- The threads are daemons: one that hangs does not hold up our end.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from ostler.bridge.threads import Threads
from ostler.gateway.memory.provider import MemoryProvider
from ostler.gateway.memory.watch import BackgroundResult, MemoryWatch, Recalled
from ostler.metrics.loops import Loops
from ostler.wire.redaction import excerpt

log = logging.getLogger("ostler.memory")

PATIENCE: Final = 0.25
"""How long the other providers wait for this one to keep step."""
MOST_WAITING: Final = 1000
READERS: Final = 4
ERROR_LIMIT: Final = 500

ProviderWork: TypeAlias = Callable[[MemoryProvider, str], object]
"""A call of the provider for a user."""


def begun() -> "Future[None]":
    """A future that whoever waits for it cannot cancel."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(eq=False, slots=True, weakref_slot=True)
class ProviderCall:
    """One call on its way to the provider."""

    what: str
    session_id: str
    work: ProviderWork
    happened: float
    """By the clock of the lane."""
    user: str = ""
    done: "Future[None]" = field(default_factory=begun)


class ProviderWorker:
    """Made by `Memories`, used on its loop."""

    def __init__(
        self,
        name: str,
        provider: MemoryProvider,
        watch: MemoryWatch,
        clock: Callable[[], float],
        loops: Loops | None = None,
    ) -> None:
        self.name = name
        # A provider that hangs is waited for by nobody: only a thread that has ended is told of.
        self._rounds = (loops or Loops()).add("the thread of a memory provider", patience=math.inf)
        self.provider = provider
        self._watch = watch
        self._clock = clock
        self._inbox: SimpleQueue[ProviderCall | None] = SimpleQueue()
        self._opening = ProviderCall("initialize", "", lambda provider, _: provider.initialize(), clock())
        self._switches: WeakValueDictionary[str, ProviderCall] = WeakValueDictionary()
        """By session, switches that the provider does not know of yet: they are gone from here when it does."""
        self._readers = Threads(READERS)
        self._broken = False
        self._abandoned = False
        # Each is counted by one thread only: posted by the loop's, done by our own.
        self._posted = 1
        self._done = 0
        self._inbox.put(self._opening)
        Thread(target=self._run, name=f"ostler-memory-{name}", daemon=True).start()

    @property
    def usable(self) -> bool:
        """Whether the provider came up, or may still do so."""
        return not self._broken

    @property
    def undone(self) -> int:
        """Errands that are not done, the running one among them."""
        return self._posted - self._done

    def expect(self, errand: ProviderCall) -> None:
        """A switch that will be posted: prefetches for its session come after it."""
        self._switches[errand.session_id] = errand

    async def deliver(self, errand: ProviderCall) -> None:
        """Post it, and wait until it is done as long as the provider keeps up."""
        behind = self.undone > 0
        self.post(errand)
        if behind:
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.wrap_future(errand.done)
        except TimeoutError:
            log.debug("memory %s is slow with %s; the others go ahead", self.name, errand.what)

    def post(self, errand: ProviderCall) -> None:
        """To be done after all that was posted before."""
        if self.undone >= MOST_WAITING:
            log.warning("memory %s: %s is lost behind %d other calls", self.name, named(errand), self.undone)
            self._watch.told(self.name, errand.what, BackgroundResult.LOST, 0.0)
            errand.done.set_result(None)
            return
        self._put(errand)

    async def prefetch(self, question: str, session_id: str, user: str, deadline: float) -> str:
        """What it knows, or "" where it fails or takes longer than to this moment of the loop's clock."""
        if self._broken or self._readers.abandoned:
            self._watch.recalled(self.name, Recalled.SKIPPED, 0.0)
            return ""
        began, outcome, found = self._clock(), Recalled.FAILED, ""
        limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                await self._up_to_date(session_id)
                found = await self._read(partial(self._prefetch, question, session_id, user))
            outcome = Recalled.FOUND if found else Recalled.NOTHING
        except TimeoutError as error:
            late = limit.expired()
            outcome = Recalled.LATE if late else outcome
            self._complain(
                f"prefetch for session {session_id}", "is late, its turn goes on without it" if late else error
            )
        except Exception as error:  # noqa: BLE001 - a provider may raise anything; the turn is answered without it
            self._complain(f"prefetch for session {session_id}", error)
        self._watch.recalled(self.name, outcome, self._clock() - began)
        return found

    async def close(self) -> None:
        """Do what is left, then let the provider close, then end the thread."""
        last = ProviderCall("close", "", lambda provider, _: provider.close(), self._clock())
        self._put(last)
        self._inbox.put(None)
        await asyncio.wrap_future(last.done)

    def abandon(self) -> None:
        """Do nothing more, although it is not closed."""
        self._abandoned = True
        self._inbox.put(None)

    def _put(self, errand: ProviderCall) -> None:
        self._posted += 1
        self._inbox.put(errand)

    # --- the waiting ---

    async def _up_to_date(self, session_id: str) -> None:
        await asyncio.wrap_future(self._opening.done)
        switch = self._switches.get(session_id)
        if switch is not None:
            await asyncio.wrap_future(switch.done)

    async def _read(self, work: Callable[[], str]) -> str:
        errand = self._readers.send(work)
        try:
            return await asyncio.wrap_future(errand.outcome)
        finally:
            if not errand.outcome.done():
                self._readers.give_up(errand)

    # --- in other threads ---

    def _prefetch(self, question: str, session_id: str, user: str) -> str:
        if self._broken:
            return ""
        found: object = self.provider.prefetch(question, session_id=session_id, user=user)
        return found if isinstance(found, str) else ""

    def _run(self) -> None:
        with self._rounds.running():
            while (errand := self._inbox.get()) is not None and not self._abandoned:
                with self._rounds.round():
                    self._do(errand)
                # Not kept until the next one comes: `_switches` would go on waiting for nothing.
                del errand

    def _do(self, errand: ProviderCall) -> None:
        outcome = BackgroundResult.FAILED
        try:
            if not self._broken:
                errand.work(self.provider, errand.user)
                outcome = BackgroundResult.DONE
        except BaseException as error:  # noqa: BLE001 - a provider may raise anything, a stray cancellation too; it is logged
            self._broken = errand is self._opening
            self._complain(named(errand), error)
        finally:
            self._done += 1
            try:
                self._watch.told(self.name, errand.what, outcome, self._clock() - errand.happened)
            finally:
                errand.done.set_result(None)

    def _complain(self, what: str, why: Any) -> None:
        told = f"failed: {type(why).__name__}: {why}" if isinstance(why, BaseException) else str(why)
        log.warning("memory %s: %s %s", self.name, what, excerpt(told, ERROR_LIMIT))


def named(errand: ProviderCall) -> str:
    """For the log."""
    return f"{errand.what} for session {errand.session_id}" if errand.session_id else errand.what
