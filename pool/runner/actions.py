"""Performs what the core decided: starts, opens, closes, stops. One coroutine for each kind of work.

Rules:
- Every piece of work ends by reporting its outcome to the core, in every case: a starting slot is answered by started,
  or failed and gone; a seat by opened, or failed and closed; a closing seat by closed; a stopping slot by gone.
- A session is loaded only when no other process is using or closing it: its process has let it go, and an earlier load
  whose claim gave up has been completed and ended.
- Work that fails halfway undoes its own half: the ticket of a failed open is revoked, and `Transport.start` reaps a
  process that failed its handshake.
- Nothing here decides. A typed error becomes an event. Any other error is a bug: it is reported as a failure too, so
  that no claim waits without end, and then raised for the `TaskOwner` to report.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial

from ostler.pool.agent.session import AgentSession, require_in_place
from ostler.pool.agent.session_transfers import SessionTransfers
from ostler.pool.agent.transport import Transport
from ostler.pool.core import events
from ostler.pool.core.values import SlotId
from ostler.pool.errors import (
    AgentMissing,
    AgentStartFailed,
    BadDirectory,
    LoadRefused,
    Phase,
    PoolError,
    RecordIncomplete,
    TransportLost,
    UnknownSession,
)
from ostler.pool.launch.builder import Launch
from ostler.pool.observer import Observer
from ostler.pool.order import SeatOrder
from ostler.pool.ports import ToolPort, ToolTicket
from ostler.pool.provider import CloseVerb
from ostler.pool.runner.live import Failure, LiveObjects, LiveProcess, LiveSeat, PoolKey
from ostler.process.errors import Blind, Survivors
from ostler.process.folder import Descriptor, Folder
from ostler.process.probe import BlockingProbe

log = logging.getLogger(__name__)

StartTransport = Callable[[Launch], Awaitable[Transport]]


class SeatNotOpened(PoolError):
    """When the work began, the process to open the seat on was gone, or its claim had given up."""

    def __init__(self, seat: LiveSeat) -> None:
        super().__init__(f"seat {seat.id} was not opened: the process of slot {seat.slot} or its claimer went away")
        self.seat = seat.id
        self.slot = seat.slot


class ActionRunner:
    """Performs the slow work of one pool."""

    def __init__(
        self,
        *,
        live: LiveObjects,
        tell: Callable[[events.CoreEvent], None],
        start: StartTransport,
        tool_port: ToolPort | None,
        observer: Observer,
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._live = live
        self._tell = tell
        self._start = start
        self._tool_port = tool_port
        self._observer = observer
        self._clock = clock
        self._chance = chance
        self._warned_unkeyed: set[str] = set()
        self._transfers = SessionTransfers()
        self._probe: BlockingProbe[Descriptor] = BlockingProbe()
        self._folders: dict[str, Folder] = {}

    def not_launched(self, slot: SlotId, key: PoolKey, error: PoolError | ValueError) -> None:
        """Report a start that could not even be prepared: the program or a setting is gone."""
        if isinstance(error, PoolError):
            self._live.failures[key] = Failure(error, self._clock())
        self._observer.started(key.key.provider, "failed", Phase.SPAWN.value, 0.0)
        self._tell(events.SlotStartFailed(slot, Phase.SPAWN.value, str(error), self._chance(), retryable=False))
        self._tell(events.SlotGone(slot))

    async def start_slot(self, running: LiveProcess) -> None:
        """Start the process of a slot and report the outcome."""
        provider = running.launch.provider.name
        self._warn_unkeyed(running.launch)
        try:
            transport = await self._start(running.launch)
        except BaseException as error:
            self._report_failed_start(running, error)
            if not isinstance(error, PoolError):
                raise
            return
        running.end = transport.take_ownership()
        if running.stopping:
            await self._end(running, running.end, hard=True)
            return
        transport.adopt(running.key.key)
        running.transport = transport
        running.ready_at = self._clock()
        self._observer.started(provider, "started", "", running.ready_at - running.begun)
        self._tell(events.SlotStarted(running.slot, self._chance()))
        transport.on_lost(lambda lost: self._report_death(running, lost, ours=transport.closing))

    def _warn_unkeyed(self, launch: Launch) -> None:
        """Warn once per provider that no key was found. This does not prevent the start: the agent may find its key
        elsewhere.
        """
        provider = launch.provider
        if launch.unkeyed and provider.name not in self._warned_unkeyed:
            self._warned_unkeyed.add(provider.name)
            log.warning("%s: %s; %s", provider.name, launch.unkeyed, provider.advice())

    def start_over(self, running: LiveProcess) -> None:
        """Called when the start's task has ended, or was cancelled before its first step; without a process the slot is
        gone.
        """
        if running.transport is None:
            self._gone(running)

    def _report_failed_start(self, running: LiveProcess, error: BaseException) -> None:
        phase = error.phase.value if isinstance(error, AgentStartFailed) else "spawn"
        if not running.stopping:
            if isinstance(error, PoolError):
                self._live.failures[running.key] = Failure(error, self._clock())
            self._observer.started(running.launch.provider.name, "failed", phase, self._clock() - running.begun)
            self._tell(
                events.SlotStartFailed(
                    running.slot,
                    phase,
                    str(error) or type(error).__name__,
                    self._chance(),
                    retryable=not isinstance(error, AgentMissing),
                    shortage=isinstance(error, AgentStartFailed) and error.shortage,
                )
            )
        self._gone(running)

    def _report_death(self, running: LiveProcess, lost: TransportLost, *, ours: bool) -> None:
        """Report the end of a process. `ours`: the session was ended, and its process with it, as the provider
        declares. That is no failure, unless the session was still opening: then the report of the failed open also
        reports this end.
        """
        if running.stopping:
            return
        if not ours:
            self._live.failures[running.key] = Failure(lost, self._clock())
            self._tell(events.SlotDied(running.slot, str(lost)))
        elif not self._live.opens_on(running.slot):
            self._tell(events.SlotSpent(running.slot))

    async def stop_slot(self, running: LiveProcess, *, hard: bool) -> None:
        """End a process that had started."""
        if running.end is not None:
            await self._end(running, running.end, hard=hard)

    async def _end(self, running: LiveProcess, end: Callable[[bool], Awaitable[None]], *, hard: bool) -> None:
        try:
            await end(hard)
        except (Survivors, Blind) as error:
            # The pool can neither end these processes nor, if `Blind`, see them: they stay in the spawn ledger for the
            # next start. Waiting for them would keep the slot, and with it the shutdown of the pool, open without end.
            log.error("%s: %s", running.key, error)  # noqa: TRY400 (the line names the processes; a trace adds nothing)
            self._observer.noted(running.launch.provider.name, "survivors", "")
        finally:
            self._gone(running)

    def _gone(self, running: LiveProcess) -> None:
        if self._live.slots.pop(running.slot, None) is not None:
            # In the same step in which the process leaves the slots, so that a reader who sums over live processes and
            # counters counts it once.
            for kind, count in running.transport.dropped.items() if running.transport else ():
                self._observer.dropped(running.launch.provider.name, kind, count)
            self._close_unused_folders()
            self._tell(events.SlotGone(running.slot))

    async def open_seat(self, seat: LiveSeat) -> None:
        """Open an agent session on a running process."""
        running = self._live.slots.get(seat.slot)
        if running is None or running.transport is None:
            self._report_failed_open(seat, running, SeatNotOpened(seat), clean=True)
            return
        with ExitStack() as ways:
            leaked = running.transport.leaked
            try:
                if seat.resume is not None:
                    await self._wait_for(seat.resume.session_id, seat, running.launch.settings.deadlines.close)
                    ways.enter_context(self._transfers.under_way(seat.resume.session_id))
                await self._load_or_open(running.transport, seat, running.key.key.cwd)
            except BaseException as error:
                self._report_failed_open(seat, running, error, clean=running.transport.leaked == leaked)
                if not isinstance(error, PoolError):
                    raise
                return
            seat.ready_at = self._clock()
            self._observer.opened(running.launch.provider.name, "opened", seat.ready_at - seat.begun)
            if seat.unwanted:
                await self.close_seat(seat)
                return
        self._tell(events.SeatOpened(seat.id))

    async def _wait_for(self, session_id: str, seat: LiveSeat, patience: float) -> None:
        if self._transfers.is_under_way(session_id):
            self._report_open_answered(
                seat
            )  # Its agent has not been asked yet, and other opens must not wait for that.
            await self._transfers.settled(session_id, patience)
            if seat.unwanted:
                raise SeatNotOpened(seat)

    def _report_open_answered(self, seat: LiveSeat) -> None:
        """Report once that the agent has answered. What a seat asks of its agent after that (a load that had to wait,
        an open after a refused load) is kept in order by the agent's gate alone.
        """
        if not seat.answered:
            seat.answered = True
            if not seat.unwanted:
                self._tell(events.SeatMade(seat.id))

    def _report_broken(self, seat: LiveSeat) -> None:
        """Report that the relay is gone for good. Not if the agent itself has ended: its end takes its seats with
        it.
        """
        seat.relay_gone = True
        running = self._live.slots.get(seat.slot)
        if running is None or running.stopping or running.transport is None or running.transport.connection.gone():
            return
        if seat.ready_at is not None and not seat.unwanted:
            self._tell(events.SeatBroken(seat.id))

    def _report_failed_open(
        self, seat: LiveSeat, running: LiveProcess | None, error: BaseException, *, clean: bool
    ) -> None:
        self._live.seats.pop(seat.id, None)
        self._close_unused_folders()
        if running is not None:
            if isinstance(error, PoolError):
                self._live.failures[running.key] = Failure(error, self._clock())
            outcome = "lost" if isinstance(error, TransportLost) or running.stopping else "failed"
            self._observer.opened(running.launch.provider.name, outcome, self._clock() - seat.begun)
        text = str(error) or type(error).__name__
        self._tell(events.SeatOpenFailed(seat.id, text))
        if running is not None and not running.stopping and running.transport and running.transport.closing:
            # Ending the half-opened session also ended the process. Reported only now: earlier, the claims that wait
            # for the seat would get the end of the process as their error and not its cause.
            self._tell(events.SlotDied(running.slot, text))
        # The core closes a seat that failed to open, and nothing is left that could answer that close later.
        self._tell(events.SeatClosed(seat.id, clean))

    async def _load_or_open(self, transport: Transport, seat: LiveSeat, cwd: str) -> None:
        if seat.resume is not None:
            memo, on_answered = seat.resume, partial(self._report_open_answered, seat)
            try:
                await self._open_session(transport, seat, cwd, lambda order: transport.load(memo, order, on_answered))
            except (LoadRefused, UnknownSession):
                # The agent cannot load the session: the caller replays its transcript into a fresh one.
                seat.restored = False
            except RecordIncomplete as error:
                log.warning("a session is opened anew and told the conversation: %s", error)
                seat.restored = False
            except AgentStartFailed as error:
                # The same, by an error that the provider does not declare for it. If the agent itself is broken, the
                # fresh session fails too, and that failure counts.
                if error.phase is not Phase.SESSION_LOAD:
                    raise
                log.warning("a session is opened anew, since it could not be loaded: %s", error)
                seat.restored = False
            else:
                seat.restored = True
                return
        await self._open_session(transport, seat, cwd, transport.open)

    async def _open_session(
        self,
        transport: Transport,
        seat: LiveSeat,
        cwd: str,
        load_or_open: Callable[[SeatOrder], Awaitable[AgentSession]],
    ) -> None:
        ticket = None
        if seat.tools is not None and self._tool_port is not None:
            ticket = self._tool_port.open(seat.tools.definitions)
        try:
            if ticket is not None:
                ticket.owned_by(transport.identity)
            order = SeatOrder(cwd=cwd, policy=seat.policy, ticket=ticket, folder=self._folder(cwd))
            await require_in_place(order)
            session = await load_or_open(order)
            await self._require_stayed(session, order)
            if ticket is not None:
                if transport.provider.states_session:
                    ticket.witnessed_by(session.id)
                await self._require_relay(transport, seat, ticket, session)
        except BaseException:
            if ticket is not None:
                ticket.revoke()
            raise
        seat.session, seat.ticket = session, ticket

    def _folder(self, cwd: str) -> Folder:
        """One `Folder` for all sessions of a directory, open as long as any of them exists."""
        folder = self._folders.get(cwd)
        if folder is None:
            folder = self._folders[cwd] = Folder(cwd, self._probe)
        return folder

    def _close_unused_folders(self) -> None:
        """Close the folders of directories without seats: such a directory may be unmounted, even if some object still
        refers to a session that was there.
        """
        slots = self._live.slots
        used = {slots[seat.slot].key.key.cwd for seat in self._live.seats.values() if seat.slot in slots}
        for cwd in [cwd for cwd in self._folders if cwd not in used]:
            self._folders.pop(cwd).close()

    async def _require_stayed(self, session: AgentSession, order: SeatOrder) -> None:
        """Close the session if its directory was replaced by a link while the agent opened it, and raise
        `BadDirectory`.
        """
        try:
            await require_in_place(order)
        except BadDirectory:
            await session.close()
            raise

    async def _require_relay(
        self, transport: Transport, seat: LiveSeat, ticket: ToolTicket, session: AgentSession
    ) -> None:
        """Fail the open if the relay listed its tools and died already; otherwise only the first tool call would
        notice.
        """
        ticket.on_gone(lambda: self._report_broken(seat))
        if seat.relay_gone:
            await session.close()
            waited = self._clock() - seat.begun
            why = "the agent connected to its tools and lost them at once; did its tool relay die?"
            raise transport.connection.failure(Phase.TOOLS, why, waited)

    async def close_seat(self, seat: LiveSeat) -> None:
        """End a seat: its ticket can call no tool from here on."""
        self._live.seats.pop(seat.id, None)
        clean = False
        try:
            if seat.ticket is not None:
                seat.ticket.revoke()
            if seat.session is not None:
                with self._transfers.under_way(seat.session.id):
                    clean = await seat.session.close()
            if seat.ticket is not None and (clean or self._never_closes(seat)):
                seat.ticket.dismiss()
        finally:
            self._close_unused_folders()
            # Also when a ticket (foreign code) raises: the core reserves the place until it is told.
            self._tell(events.SeatClosed(seat.id, clean))

    def _never_closes(self, seat: LiveSeat) -> bool:
        running = self._live.slots.get(seat.slot)
        return running is not None and running.launch.provider.close is CloseVerb.NONE

    async def probe_slot(self, slot: SlotId) -> None:
        """Report whether a process answers a probe."""
        transport = self._live.transport(slot)
        alive = transport is not None and await transport.probe()
        self._tell(events.ProbeAnswered(slot) if alive else events.ProbeMissed(slot))

    async def weigh_slot(self, running: LiveProcess) -> None:
        """Measure the memory of a process tree."""
        if running.transport is not None:
            before = self._live.sessions_on(running.slot)
            found = await running.transport.memory()
            running.memory = found.pss
            if running.slot in self._live.slots:
                # Sessions that came or went during the measurement may not be in it.
                sessions = min(before, self._live.sessions_on(running.slot))
                self._tell(events.MemorySampled(running.slot, found.pss, found.own, sessions))
