"""Opening and loading of a session: request it, register it, set its mode, wait until its tools are attached.

Rules:
- A new session is registered while its answer is read, a loaded one before the request is sent, so that updates which
  follow immediately find it.
- An open whose caller has given up is completed and its session then closed: an agent has no way to take back a session
  whose id the client never learned. Where even that is impossible, the session is counted as leaked.
- Ready means: the agent has made the session *and* has connected to this session's tools, by any channel.
- A load is requested only where it is safe: never with another cwd, never before the agent's record is complete. It is
  trusted only if the agent repeats what was said last.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from ostler.pool.agent.codec import AgentCall, BadReply
from ostler.pool.agent.session import AgentSession, Host
from ostler.pool.errors import (
    AgentFault,
    AgentSilent,
    LoadRefused,
    Phase,
    PoolError,
    RecordIncomplete,
    UnknownSession,
)
from ostler.pool.order import SeatOrder, SessionMemo
from ostler.pool.ports import ToolTicket
from ostler.pool.provider import Approval, ToolChannel

AUTH_REQUIRED = -32000


class OpeningHost(Host, Protocol):
    """What an opening needs of its transport."""

    leaked: int

    def enter(self, session: AgentSession) -> None: ...
    def leave(self, session_id: str) -> None: ...
    def holds(self, session_id: str) -> bool: ...
    def own(self, ticket: ToolTicket) -> None: ...
    def equip(self, order: SeatOrder) -> SeatOrder: ...
    async def put_away(self, session: AgentSession) -> None: ...
    async def take_back(self, session: AgentSession) -> None: ...


def nothing() -> None:
    """The default callback: the caller needs no notice."""


class Opening:
    """The opening or loading of one session. Use an instance once."""

    def __init__(
        self,
        host: OpeningHost,
        open_gate: asyncio.Semaphore,
        order: SeatOrder,
        on_answered: Callable[[], None] = nothing,
    ) -> None:
        """`on_answered` is called on the agent's answer, so that other opens do not wait for the end of a replay."""
        self._host = host
        self._open_gate = open_gate
        self._order = order
        self._on_answered = on_answered
        self._deadlines = host.launch.settings.deadlines
        self._provider = host.launch.provider
        self._loop = asyncio.get_running_loop()

    async def new(self) -> AgentSession:
        """Open a new session. Raises as `Transport.open`."""
        self._order = self._host.equip(self._order)
        sessions: list[AgentSession] = []

        def register(result: Any) -> None:
            opened = self._host.codec.opened(result)
            if self._host.holds(opened.session_id):
                raise BadReply(f"it gave the id of another live session, {opened.session_id!r}, to a new one")
            session = AgentSession(self._host, opened.session_id, self._order)
            self._host.enter(session)
            session.mode, session.model = opened.mode, opened.model
            sessions.append(session)

        await self._exchange(Phase.SESSION_OPEN, self._host.codec.open(self._order), register)
        return await self._make_ready(sessions[0])

    async def load(self, memo: SessionMemo) -> AgentSession:
        """Restore a session that an earlier process made. Raises as `Transport.load`."""
        # Check again, because now no await lies between the check and `enter`: two loads may both have passed the first
        # check.
        check_apart(self._host, memo)
        self._order = self._host.equip(self._order)
        session = AgentSession(self._host, memo.session_id, self._order, memo=memo)
        self._host.enter(session)

        def register(result: Any) -> None:
            opened = self._host.codec.opened(result, memo.session_id)
            session.mode, session.model = opened.mode, opened.model

        try:
            await self._host.take_back(session)
            await self._unarchive(memo.session_id)
            call = self._host.codec.load(memo.session_id, self._order)
            await self._exchange(Phase.SESSION_LOAD, call, register)
        except BaseException:
            self._host.leave(memo.session_id)
            self._host.run_closing_task(self._host.put_away(session))
            raise
        try:
            await self._await_replay(session, memo)
            self._require_replay(session)
        except BaseException:
            await session.close()
            raise
        return await self._make_ready(session)

    async def _unarchive(self, session_id: str) -> None:
        for call in self._host.codec.unarchive(session_id):
            try:
                await self._host.connection.ask(call, deadline=self._deadlines.session_load, phase=Phase.SESSION_LOAD)
            except AgentFault:
                continue  # it was not archived
            except AgentSilent as error:
                raise self._host.connection.failure(Phase.SESSION_LOAD, str(error), error.waited) from error

    async def _await_replay(self, session: AgentSession, memo: SessionMemo) -> None:
        """Wait until the agent has repeated the conversation."""
        codec, connection, began = self._host.codec, self._host.connection, self._loop.time()

        def tell(result: Any) -> None:
            for event in codec.replayed_events(result):
                session.receive(event)

        for call in codec.recent_turns(session.id, 1 + memo.said.since):
            try:
                await connection.ask(
                    call, deadline=self._deadlines.session_load, phase=Phase.SESSION_LOAD, at_once=tell
                )
            except (AgentFault, AgentSilent, BadReply) as error:
                raise connection.failure(Phase.SESSION_LOAD, str(error), self._loop.time() - began) from error
        await session.replayed()

    def _require_replay(self, session: AgentSession) -> None:
        if self._host.connection.ended:
            # the replay cannot be judged: the process died during it
            raise self._host.connection.lost(Phase.SESSION_LOAD)
        if not self._provider.load.repeats or session.remembers:
            return
        if not session.recalled:
            # Some agents make a new session for an id that they do not know.
            raise UnknownSession(provider=self._provider.name, session_id=session.id)
        raise RecordIncomplete(provider=self._provider.name, session_id=session.id)

    async def _exchange(self, phase: Phase, call: AgentCall, register: Callable[[Any], None]) -> None:
        deadlines, connection = self._deadlines, self._host.connection
        deadline = deadlines.session_open if phase is Phase.SESSION_OPEN else deadlines.session_load
        if self._order.ticket is not None:
            self._host.own(self._order.ticket)
        async with self._open_gate:
            began = self._loop.time()
            try:
                await connection.wait_writable(call.method, phase)
                await connection.ask(call, deadline=deadline, phase=phase, at_once=register)
            except AgentFault as fault:
                raise self._refused(phase, fault, self._loop.time() - began, call) from fault
            except (AgentSilent, BadReply) as error:
                # The agent may have made a session whose id was never received.
                self._host.leaked += 1
                raise connection.failure(phase, str(error), self._loop.time() - began) from error
        self._on_answered()

    def _refused(self, phase: Phase, fault: AgentFault, waited: float, call: AgentCall) -> PoolError:
        if phase is Phase.SESSION_LOAD and fault.code in self._provider.faults.unknown_session:
            named = call.params.get("sessionId") or call.params.get("threadId")
            return UnknownSession(provider=self._provider.name, session_id=str(named))
        why = str(fault)
        if fault.code == AUTH_REQUIRED:
            why = f"{why}; {self._provider.advice()}"
        return self._host.connection.failure(phase, why, waited)

    async def _make_ready(self, session: AgentSession) -> AgentSession:
        try:
            await self._set_mode(session)
            await self._attach_tools()
            session.require_good()
        except BaseException:
            await session.close()
            raise
        return session

    async def _set_mode(self, session: AgentSession) -> None:
        auto = self._provider.auto_mode if self._host.launch.settings.approval is Approval.AUTO else None
        mode = self._order.mode or auto
        if mode is None or mode == session.mode:
            return
        began, connection = self._loop.time(), self._host.connection
        try:
            for call in self._host.codec.set_mode(session.id, mode):
                await connection.ask(call, deadline=self._deadlines.session_open, phase=Phase.SESSION_OPEN)
        except (AgentFault, AgentSilent) as error:
            raise connection.failure(Phase.SESSION_OPEN, str(error), self._loop.time() - began) from error
        session.mode = mode

    async def _attach_tools(self) -> None:
        ticket, connection, began = self._order.ticket, self._host.connection, self._loop.time()
        if ticket is None or self._host.launch.channel is ToolChannel.DYNAMIC_TOOLS:
            return
        attached = asyncio.ensure_future(ticket.attached())
        gone = asyncio.ensure_future(self._host.wait_lost())
        try:
            done, _ = await asyncio.wait(
                (attached, gone), timeout=self._deadlines.tools, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            attached.cancel()
            gone.cancel()
        if gone in done:
            raise connection.lost(Phase.TOOLS)
        if attached in done:
            lost = attached.exception()
            if lost is not None:
                why = f"the agent connected to its tools and lost them at once ({lost}); did its tool relay die?"
                raise connection.failure(Phase.TOOLS, why, self._loop.time() - began) from lost
        else:
            why = "the agent made the session but did not connect to its tools; does it trust the directory?"
            raise connection.failure(Phase.TOOLS, why, self._deadlines.tools)


def check_apart(host: OpeningHost, memo: SessionMemo) -> None:
    """Raise `LoadRefused` when the session is open on this process: with two of one id, one would get all events."""
    if host.holds(memo.session_id):
        why = "it is open on this very process"
        raise LoadRefused(provider=host.launch.provider.name, session_id=memo.session_id, why=why)


def check_load(host: OpeningHost, memo: SessionMemo, order: SeatOrder, *, offered: bool, now: float) -> None:
    """Raise `LoadRefused` for a load that the agent would answer wrongly."""
    provider = host.launch.provider
    ready = provider.load.ready_at(memo)
    check_apart(host, memo)
    if memo.cwd != order.cwd:
        why = f"it lives in {memo.cwd!r}, not in {order.cwd!r}: loaded elsewhere it would be split in two"
    elif ready is None or not offered:
        why = "this agent's load is not to be trusted"
    elif now < ready:
        why = f"its record is not safe to load for another {ready - now:.1f} s"
        raise LoadRefused(provider=provider.name, session_id=memo.session_id, why=why, ready_at=ready)
    else:
        return
    raise LoadRefused(provider=provider.name, session_id=memo.session_id, why=why)
