"""The live object behind a seat: an agent session that opens, waits, serves one lease, and is closed.

Rules:
- A seat does one piece of work and reports its outcome to the core, in every case: an opening seat is answered by
  opened, or failed and closed; a closing seat by closed.
- A session is loaded only when no other process is using or closing it: its process has let it go, and an earlier load
  whose claim gave up has been completed and ended.
- Work that fails halfway undoes its own half: the ticket of a failed open is revoked.
- A seat is leased once in its life. It must never refer to the `Lease`, which would keep a dropped lease alive.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import cast

from ostler.pool.agent.prompt_checks import require_in_place
from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.transport import Transport
from ostler.pool.core import actions, events
from ostler.pool.core.values import ClaimId, LeaseId
from ostler.pool.errors import (
    AgentStartFailed,
    BadDirectory,
    LoadRefused,
    Phase,
    PoolError,
    RecordIncomplete,
    TransportLost,
    UnknownSession,
)
from ostler.pool.events import PermissionAsked
from ostler.pool.order import SeatOrder, SessionMemo
from ostler.pool.ports import PermissionChoice, PermissionPolicy, ToolSet, ToolTicket
from ostler.pool.provider import CloseVerb
from ostler.pool.runner.live_process import LiveHost, LiveProcess

log = logging.getLogger(__name__)


class SeatNotOpened(PoolError):
    """When the work began, the process to open the seat on was gone, or its claim had given up."""

    def __init__(self, seat: "LiveSeat") -> None:
        slot = seat.process.slot
        super().__init__(f"seat {seat.id} was not opened: the process of slot {slot} or its claimer went away")
        self.seat = seat.id
        self.slot = slot


class SeatPolicy:
    """A permission policy that is set when the seat is claimed; until then the pool's default policy answers."""

    def __init__(self, default: PermissionPolicy) -> None:
        self.answer = default

    async def __call__(self, session_id: str, asked: PermissionAsked, /) -> PermissionChoice:
        return await self.answer(session_id, asked)


class LiveSeat:
    """One seat. The core knows it by `id`, its holder by the `Lease`."""

    def __init__(
        self, host: LiveHost, process: LiveProcess, ordered: actions.OpenSeat, policy: PermissionPolicy
    ) -> None:
        self.id = ordered.seat
        self.process = process
        self.policy = SeatPolicy(policy)
        self.begun = host.clock()
        self.ready_at: float | None = None
        self.session: AgentSession | None = None
        self.ticket: ToolTicket | None = None
        self.restored = False
        """Whether the agent has loaded the session to resume."""
        self.unwanted = False
        self.lease: LeaseId | None = None
        """The lease that holds the seat now."""
        self.claim: ClaimId = None
        self.move: str | None = None
        """Why the holder should leave the seat."""
        self.lost: PoolError | None = None
        """How the process died under the lease."""
        self.moved = asyncio.Event()
        """Set when the holder should leave the seat, and at its release."""
        self._host = host
        # The core hands back what it was given: by `Claim` and `KeepWarm`.
        self._tools = cast("ToolSet | None", ordered.tools)
        self._resume = cast("SessionMemo | None", ordered.resume)
        self._answered = False
        """Whether its agent has answered the open."""
        self._relay_gone = False

    # --- open ---

    async def open(self) -> None:
        """Open an agent session on the process."""
        transport, provider = self.process.transport, self.process.provider
        if transport is None or self.process.gone:
            self._report_failed_open(SeatNotOpened(self), clean=True)
            return
        with ExitStack() as ways:
            leaked = transport.leaked
            try:
                if self._resume is not None:
                    await self._wait_for_transfer(self._resume.session_id)
                    ways.enter_context(self._host.transfers.under_way(self._resume.session_id))
                await self._load_or_open(transport)
            except BaseException as error:
                if isinstance(error, PoolError):
                    self._host.remember_failure(self.process.key, error)
                outcome = "lost" if isinstance(error, TransportLost) or self.process.stopping else "failed"
                self._host.observer.opened(provider, outcome, self._host.clock() - self.begun)
                self._report_failed_open(error, clean=transport.leaked == leaked)
                if not isinstance(error, PoolError):
                    raise
                return
            self.ready_at = self._host.clock()
            self._host.observer.opened(provider, "opened", self.ready_at - self.begun)
            if self.unwanted:
                await self.close()
                return
        self._host.tell(events.SeatOpened(self.id))

    async def _wait_for_transfer(self, session_id: str) -> None:
        if self._host.transfers.is_under_way(session_id):
            self._report_open_answered()  # Its agent has not been asked yet, and other opens must not wait for that.
            await self._host.transfers.settled(session_id, self.process.launch.settings.deadlines.close)
            if self.unwanted:
                raise SeatNotOpened(self)

    def _report_open_answered(self) -> None:
        """Report once that the agent has answered. What a seat asks of its agent after that (a load that had to wait,
        an open after a refused load) is kept in order by the agent's gate alone.
        """
        if not self._answered:
            self._answered = True
            if not self.unwanted:
                self._host.tell(events.SeatMade(self.id))

    def _report_failed_open(self, error: BaseException, *, clean: bool) -> None:
        self.process.seats.pop(self.id, None)
        self._host.close_unused_folders()
        text = str(error) or type(error).__name__
        self._host.tell(events.SeatOpenFailed(self.id, text))
        process = self.process
        if not process.gone and not process.stopping and process.transport and process.transport.closing:
            # Ending the half-opened session also ended the process. Reported only now: earlier, the claims that wait
            # for the seat would get the end of the process as their error and not its cause.
            self._host.tell(events.SlotDied(process.slot, text))
        # The core closes a seat that failed to open, and nothing is left that could answer that close later.
        self._host.tell(events.SeatClosed(self.id, clean))

    async def _load_or_open(self, transport: Transport) -> None:
        if self._resume is not None:
            memo = self._resume
            try:
                await self._open_session(
                    transport, lambda order: transport.load(memo, order, self._report_open_answered)
                )
            except (LoadRefused, UnknownSession):
                pass  # The agent cannot load the session: the caller replays its transcript into a fresh one.
            except RecordIncomplete as error:
                log.warning("a session is opened anew and told the conversation: %s", error)
            except AgentStartFailed as error:
                # The same, by an error that the provider does not declare for it. If the agent itself is broken, the
                # fresh session fails too, and that failure counts.
                if error.phase is not Phase.SESSION_LOAD:
                    raise
                log.warning("a session is opened anew, since it could not be loaded: %s", error)
            else:
                self.restored = True
                return
        await self._open_session(transport, transport.open)

    async def _open_session(
        self, transport: Transport, load_or_open: Callable[[SeatOrder], Awaitable[AgentSession]]
    ) -> None:
        ticket, cwd = None, self.process.key.key.cwd
        if self._tools is not None and self._host.tool_port is not None:
            ticket = self._host.tool_port.open(self._tools.definitions)
        try:
            if ticket is not None:
                ticket.owned_by(transport.identity)
            order = SeatOrder(cwd=cwd, policy=self.policy, ticket=ticket, folder=self._host.folder(cwd))
            await require_in_place(order)
            session = await load_or_open(order)
            await require_stayed(session, order)
            if ticket is not None:
                if transport.provider.states_session:
                    ticket.witnessed_by(session.id)
                await self._require_relay(transport, ticket, session)
        except BaseException:
            if ticket is not None:
                ticket.revoke()
            raise
        self.session, self.ticket = session, ticket

    async def _require_relay(self, transport: Transport, ticket: ToolTicket, session: AgentSession) -> None:
        """Fail the open if the relay listed its tools and died already; otherwise only the first tool call would
        notice.
        """
        ticket.on_gone(self._report_broken)
        if self._relay_gone:
            await session.close()
            waited = self._host.clock() - self.begun
            why = "the agent connected to its tools and lost them at once; did its tool relay die?"
            raise transport.connection.failure(Phase.TOOLS, why, waited)

    def _report_broken(self) -> None:
        """Report that the relay is gone for good. Not if the agent itself has ended: its end takes its seats with
        it.
        """
        self._relay_gone = True
        process = self.process
        if process.gone or process.stopping or process.transport is None or process.transport.connection.gone():
            return
        if self.ready_at is not None and not self.unwanted:
            self._host.tell(events.SeatBroken(self.id))

    # --- the lease ---

    def grant(self, action: actions.Grant) -> None:
        """Record the lease that the core has granted."""
        self.lease, self.claim = action.lease, action.claim

    def ask_to_move(self, why: str) -> None:
        """Tell the holder to leave the seat."""
        self.move = why
        self.moved.set()

    def lose(self, error: PoolError) -> None:
        """Tell the holder that the process under its lease has ended."""
        self.lease, self.lost = None, error
        self.moved.set()

    # --- close ---

    async def close(self) -> None:
        """End the seat: its ticket can call no tool from here on."""
        self.process.seats.pop(self.id, None)
        clean = False
        try:
            if self.ticket is not None:
                self.ticket.revoke()
            if self.session is not None:
                with self._host.transfers.under_way(self.session.id):
                    clean = await self.session.close()
            if self.ticket is not None and (clean or self._never_closes()):
                self.ticket.dismiss()
        finally:
            self._host.close_unused_folders()
            # Also when a ticket (foreign code) raises: the core reserves the place until it is told.
            self._host.tell(events.SeatClosed(self.id, clean))

    def _never_closes(self) -> bool:
        return not self.process.gone and self.process.launch.provider.close is CloseVerb.NONE

    def end_with_process(self) -> None:
        """The process ends, and the core orders no close. An open that is under way closes the seat itself."""
        self.unwanted = True
        if self.ready_at is not None:
            self.process.seats.pop(self.id, None)
            if self.ticket is not None:
                self.ticket.revoke()


async def require_stayed(session: AgentSession, order: SeatOrder) -> None:
    """Close the session if its directory was replaced by a link while the agent opened it, and raise `BadDirectory`."""
    try:
        await require_in_place(order)
    except BadDirectory:
        await session.close()
        raise
