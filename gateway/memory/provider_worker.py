"""Runs one memory provider in a thread of its own, so that its faults and delays stay there.

Rules:
- Calls are made one after another, in the order in which they were posted. A call that raises costs one warning; the
  next one is made.
- Only `prefetch` runs beside the calls, in threads of its own: a turn must not wait until earlier turns are stored. It
  does wait, within its limit, for a pending switch to the session that it asks for.
- A prefetch that is late is abandoned: its turn goes on without it, and the provider gets no further prefetch until
  that one has returned.
- The queue is bounded. A provider that hangs loses calls, each with a warning, instead of using up memory. `close` is
  exempt: it is queued however many calls wait.
- The threads are daemons: a thread that hangs does not delay the end of the process.
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
"""Seconds that other providers wait for this one to keep up."""
MOST_WAITING: Final = 1000
READERS: Final = 4
ERROR_LIMIT: Final = 500

ProviderWork: TypeAlias = Callable[[MemoryProvider, str], object]
"""A call of the provider's method, for a user."""


def begun() -> "Future[None]":
    """A future that a waiting caller cannot cancel."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(eq=False, slots=True, weakref_slot=True)
class ProviderCall:
    """One queued call of a provider."""

    what: str
    session_id: str
    work: ProviderWork
    happened: float
    """When the reported event happened, by the worker's clock."""
    user: str = ""
    done: "Future[None]" = field(default_factory=begun)


class ProviderWorker:
    """The queue and thread of one provider. Created by `Memories` and used on its event loop."""

    def __init__(
        self,
        name: str,
        provider: MemoryProvider,
        watch: MemoryWatch,
        clock: Callable[[], float],
        loops: Loops | None = None,
    ) -> None:
        self.name = name
        # No call waits for a provider that hangs, so a hang is no fault; only a thread that has ended is reported.
        self._rounds = (loops or Loops()).add("the thread of a memory provider", patience=math.inf)
        self.provider = provider
        self._watch = watch
        self._clock = clock
        self._inbox: SimpleQueue[ProviderCall | None] = SimpleQueue()
        self._opening = ProviderCall("initialize", "", lambda provider, _: provider.initialize(), clock())
        self._switches: WeakValueDictionary[str, ProviderCall] = WeakValueDictionary()
        """Switches, by session, that the provider has not processed. An entry vanishes when its call is done and
        released."""
        self._readers = Threads(READERS)
        self._broken = False
        self._abandoned = False
        # Each counter has one writer: the loop's thread for `_posted`, our own thread for `_done`.
        self._posted = 1
        self._done = 0
        self._inbox.put(self._opening)
        Thread(target=self._run, name=f"ostler-memory-{name}", daemon=True).start()

    @property
    def usable(self) -> bool:
        """False if the provider failed to initialize; true while it is still initializing."""
        return not self._broken

    @property
    def undone(self) -> int:
        """How many calls are not done, including the running one."""
        return self._posted - self._done

    def expect(self, call: ProviderCall) -> None:
        """Announce a switch that will be posted: prefetches for its session wait for it."""
        self._switches[call.session_id] = call

    async def deliver(self, call: ProviderCall) -> None:
        """Post a call and wait for it, unless the provider is behind or takes longer than `PATIENCE`."""
        behind = self.undone > 0
        self.post(call)
        if behind:
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.wrap_future(call.done)
        except TimeoutError:
            log.debug("memory %s is slow with %s; the others go ahead", self.name, call.what)

    def post(self, call: ProviderCall) -> None:
        """Queue a call after all that were posted before. If the queue is full, the call is dropped with a warning."""
        if self.undone >= MOST_WAITING:
            log.warning("memory %s: %s is lost behind %d other calls", self.name, named(call), self.undone)
            self._watch.told(self.name, call.what, BackgroundResult.LOST, 0.0)
            call.done.set_result(None)
            return
        self._put(call)

    async def prefetch(self, question: str, session_id: str, user: str, deadline: float) -> str:
        """What the provider offers; "" if it fails or is not done at `deadline`, in the loop's time."""
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
        """Make the remaining calls, close the provider, and end the thread."""
        last = ProviderCall("close", "", lambda provider, _: provider.close(), self._clock())
        self._put(last)
        self._inbox.put(None)
        await asyncio.wrap_future(last.done)

    def abandon(self) -> None:
        """Make no further call, although the provider was not closed."""
        self._abandoned = True
        self._inbox.put(None)

    def _put(self, call: ProviderCall) -> None:
        self._posted += 1
        self._inbox.put(call)

    # --- waiting ---

    async def _up_to_date(self, session_id: str) -> None:
        await asyncio.wrap_future(self._opening.done)
        switch = self._switches.get(session_id)
        if switch is not None:
            await asyncio.wrap_future(switch.done)

    async def _read(self, work: Callable[[], str]) -> str:
        call = self._readers.send(work)
        try:
            return await asyncio.wrap_future(call.outcome)
        finally:
            if not call.outcome.done():
                self._readers.give_up(call)

    # --- in other threads ---

    def _prefetch(self, question: str, session_id: str, user: str) -> str:
        if self._broken:
            return ""
        found: object = self.provider.prefetch(question, session_id=session_id, user=user)
        return found if isinstance(found, str) else ""

    def _run(self) -> None:
        with self._rounds.running():
            while (call := self._inbox.get()) is not None and not self._abandoned:
                with self._rounds.round():
                    self._do(call)
                # Release the call now and not when the next one arrives: `_switches` would keep it, and prefetches
                # would wait for it.
                del call

    def _do(self, call: ProviderCall) -> None:
        outcome = BackgroundResult.FAILED
        try:
            if not self._broken:
                call.work(self.provider, call.user)
                outcome = BackgroundResult.DONE
        except BaseException as error:  # noqa: BLE001 - a provider may raise anything, a stray cancellation too; it is logged
            self._broken = call is self._opening
            self._complain(named(call), error)
        finally:
            self._done += 1
            try:
                self._watch.told(self.name, call.what, outcome, self._clock() - call.happened)
            finally:
                call.done.set_result(None)

    def _complain(self, what: str, why: Any) -> None:
        told = f"failed: {type(why).__name__}: {why}" if isinstance(why, BaseException) else str(why)
        log.warning("memory %s: %s %s", self.name, what, excerpt(told, ERROR_LIMIT))


def named(call: ProviderCall) -> str:
    """The call as the log names it."""
    return f"{call.what} for session {call.session_id}" if call.session_id else call.what
