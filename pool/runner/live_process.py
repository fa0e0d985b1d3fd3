"""The live object behind a slot: one process that starts, runs, or is being stopped.

Rules:
- The core decides; a live object does one piece of work and reports its outcome to the core, in every case: a starting
  slot is answered by started, or failed and gone; a stopping slot by gone.
- A typed error becomes an event. Any other error is a bug: it is reported as a failure too, so that no claim waits
  without end, and then raised for the `TaskOwner` to report.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from ostler.pool.agent.session_transfers import SessionTransfers
from ostler.pool.agent.transport import Transport
from ostler.pool.core import events
from ostler.pool.core.values import SeatId, SlotId
from ostler.pool.errors import AgentMissing, AgentStartFailed, PoolError, TransportLost
from ostler.pool.keys import PoolKey
from ostler.pool.launch.builder import Launch
from ostler.pool.observer import Observer
from ostler.pool.ports import ToolPort
from ostler.process.errors import Blind, Survivors
from ostler.process.folder import Folder

if TYPE_CHECKING:
    from ostler.pool.runner.live_seat import LiveSeat

log = logging.getLogger(__name__)

StartTransport = Callable[[Launch], Awaitable[Transport]]


class LiveHost(Protocol):
    """What a live process and its seats need of the engine that holds them."""

    @property
    def observer(self) -> Observer: ...
    @property
    def tool_port(self) -> ToolPort | None: ...
    @property
    def transfers(self) -> SessionTransfers: ...
    def clock(self) -> float: ...
    def chance(self) -> float: ...
    def tell(self, event: events.CoreEvent) -> None: ...
    def remember_failure(self, key: PoolKey, error: PoolError) -> None: ...
    def folder(self, cwd: str) -> Folder: ...
    def close_unused_folders(self) -> None: ...
    def process_gone(self, process: "LiveProcess") -> None: ...


class LiveProcess:
    """One slot. The core knows it by `slot`, lease holders by `transport`."""

    def __init__(self, host: LiveHost, slot: SlotId, key: PoolKey, launch: Launch) -> None:
        self.slot = slot
        self.key = key
        self.launch = launch
        self.begun = host.clock()
        self.ready_at: float | None = None
        self.seats: dict[SeatId, LiveSeat] = {}
        self.transport: Transport | None = None
        self.task: asyncio.Task[None] | None = None
        """The task that starts it."""
        self.memory = 0
        self.stopping = False
        self.gone = False
        self.has_answered = False
        """Whether it has answered a prompt."""
        self._host = host
        self._end: Callable[[bool], Awaitable[None]] | None = None
        """The only way to end the process; other holders of the transport cannot."""

    @property
    def provider(self) -> str:
        """The name of its provider."""
        return self.launch.provider.name

    def adopt(self, key: PoolKey) -> None:
        """Assign a spare to the key that adopts it, perhaps before it is ready."""
        self.key = key
        self.launch = replace(self.launch, key=key.key)
        if self.transport is not None:
            self.transport.adopt(key.key)

    async def start(self, start: StartTransport) -> None:
        """Start the process and report the outcome."""
        try:
            transport = await start(self.launch)
        except BaseException as error:
            self._report_failed_start(error)
            if not isinstance(error, PoolError):
                raise
            return
        self._end = transport.take_ownership()
        if self.stopping:
            await self.stop(hard=True)
            return
        transport.adopt(self.key.key)
        self.transport = transport
        self.ready_at = self._host.clock()
        self._host.observer.started(self.provider, "started", "", self.ready_at - self.begun)
        self._host.tell(events.SlotStarted(self.slot, self._host.chance()))
        transport.on_lost(lambda lost: self._report_death(lost, ours=transport.closing))

    def start_over(self) -> None:
        """Called when the start's task has ended, or was cancelled before its first step; without a process the slot is
        gone.
        """
        if self.transport is None:
            self._leave()

    def _report_failed_start(self, error: BaseException) -> None:
        if not self.stopping:
            phase = error.phase.value if isinstance(error, AgentStartFailed) else "spawn"
            if isinstance(error, PoolError):
                self._host.remember_failure(self.key, error)
            self._host.observer.started(self.provider, "failed", phase, self._host.clock() - self.begun)
            self._host.tell(
                events.SlotStartFailed(
                    self.slot,
                    phase,
                    str(error) or type(error).__name__,
                    self._host.chance(),
                    retryable=not isinstance(error, AgentMissing),
                    shortage=isinstance(error, AgentStartFailed) and error.shortage,
                )
            )
        self._leave()

    def _report_death(self, lost: TransportLost, *, ours: bool) -> None:
        """Report the end of a process. `ours`: the session was ended, and its process with it, as the provider
        declares. That is no failure, unless the session was still opening: then the report of the failed open also
        reports this end.
        """
        if self.stopping:
            return
        if not ours:
            self._host.remember_failure(self.key, lost)
            self._host.tell(events.SlotDied(self.slot, str(lost)))
        elif all(seat.ready_at is not None for seat in self.seats.values()):
            self._host.tell(events.SlotSpent(self.slot))

    async def stop(self, *, hard: bool) -> None:
        """End a process that had started."""
        if self._end is None:
            return
        try:
            await self._end(hard)
        except (Survivors, Blind) as error:
            # The pool can neither end these processes nor, if `Blind`, see them: they stay in the spawn ledger for the
            # next start. Waiting for them would keep the slot, and with it the shutdown of the pool, open without end.
            log.error("%s: %s", self.key, error)  # noqa: TRY400 (the line names the processes; a trace adds nothing)
            self._host.observer.noted(self.provider, "survivors", "")
        finally:
            self._leave()

    def _leave(self) -> None:
        if self.gone:
            return
        self.gone = True
        # In the same step in which the process leaves the pool, so that a reader who sums over live processes and
        # counters counts it once.
        for kind, count in self.transport.dropped.items() if self.transport else ():
            self._host.observer.dropped(self.provider, kind, count)
        self._host.process_gone(self)

    async def probe(self) -> None:
        """Report whether the process answers."""
        alive = self.transport is not None and await self.transport.probe()
        self._host.tell(events.ProbeAnswered(self.slot) if alive else events.ProbeMissed(self.slot))

    async def weigh(self) -> None:
        """Measure the memory of the process tree."""
        if self.transport is None:
            return
        before = self._opened_sessions()
        found = await self.transport.memory()
        self.memory = found.pss
        if not self.gone:
            # Sessions that came or went during the measurement may not be in it.
            sessions = min(before, self._opened_sessions())
            self._host.tell(events.MemorySampled(self.slot, found.pss, found.own, sessions))

    def _opened_sessions(self) -> int:
        return sum(seat.session is not None for seat in self.seats.values())
