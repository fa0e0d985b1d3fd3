"""One live agent process that has answered its handshake, and the sessions on it.

Rules:
- A transport dies once. Every open, load and turn is told with key, pid, exit code and the last stderr lines; then the
  listeners of `on_lost` are called. Exit code 0 is no clean end.
- Updates of sessions that were not opened here are dropped and counted (`strays`).
- A polite end follows the order in which agents save: first the closes that were ordered, while stdin is open and for
  the time of one close at most, then EOF. Some agents write a session to disk only when it is closed or when they exit
  by themselves (a SIGKILL cost one its last turn and another the whole session), so only an agent that ignores EOF is
  signalled. A session whose close was not ordered is not closed here: the end of the process ends it.
- Tasks run in an empty context: nothing of the request that started a process stays in it.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import Context
from dataclasses import replace
from typing import Any, TypeVar

from ostler.pool.agent.codec import AgentInfo, BadReply, PermissionWanted, ToolWanted
from ostler.pool.agent.codecs import codec_for
from ostler.pool.agent.connection import AgentConnection
from ostler.pool.agent.opening import Opening, check_load, nothing
from ostler.pool.agent.per_home import PerHome
from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.tool_channels import ToolChannelRouter
from ostler.pool.errors import (
    AgentFault,
    AgentSilent,
    AgentStartFailed,
    Phase,
    PoolError,
    SharedProcess,
    TransportLost,
)
from ostler.pool.events import MessageDropped
from ostler.pool.keys import TransportKey
from ostler.pool.launch.builder import Launch
from ostler.pool.order import SeatOrder, SessionMemo
from ostler.pool.ports import ToolIdentity, ToolTicket
from ostler.pool.prompt import PromptCapabilities
from ostler.pool.provider import CloseVerb, Provider
from ostler.process.ending import StopDeadlines
from ostler.process.errors import ProcessError, ResourcesExhausted, StartError
from ostler.process.supervisor import ProcessSupervisor
from ostler.process.tree import TreeMemory
from ostler.wire.json import JsonObject
from ostler.wire.rpc import INVALID_PARAMS, RpcFault, RpcId

log = logging.getLogger(__name__)

T = TypeVar("T")
NAMED = re.compile(rb'"(?:sessionId|threadId)"\s*:\s*"([^"\\]+)"')
"""The session id in a message of which only the beginning is known."""
HARD = StopDeadlines(eof=0, terminate=0)


class Transport:
    """One agent process with its sessions. Create it with `start`."""

    def __init__(self, launch: Launch, *, per_home: PerHome, wall: Callable[[], float] = time.time) -> None:
        self.launch = launch
        self.codec = codec_for(launch)
        self.connection = AgentConnection(launch, self, versioned=self.codec.versioned)
        self.info = AgentInfo("", "")
        self.leaked = 0
        """Sessions that were given up because the agent cannot end them, or did not."""
        self.strays = 0
        """Updates and requests for sessions that are not open here."""
        self._drop_reported = False
        self.late = 0
        """Updates of sessions that had no running turn."""
        self._archive = per_home.archive(launch.provider, launch.command.env.get("HOME", launch.home))
        self._tool_router = ToolChannelRouter(launch, self.connection)
        self._open_gate = per_home.opens(launch.provider, launch.home)
        self._wall = wall
        self._sessions: dict[str, AgentSession] = {}
        self._opening = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing_tasks: set[asyncio.Task[Any]] = set()
        self._lost: TransportLost | None = None
        self._gone = asyncio.Event()
        self._listeners: list[Callable[[TransportLost], None]] = []
        self._closing = False
        self._ready = False
        self._shared = False

    @classmethod
    async def start(
        cls, launch: Launch, *, supervisor: ProcessSupervisor, per_home: PerHome, wall: Callable[[], float] = time.time
    ) -> "Transport":
        """Start the process and perform the handshake.

        Raises `AgentStartFailed`, at the latest `deadlines.start` after the start gate let it through; no process is
        left then.
        """
        transport = cls(launch, per_home=per_home, wall=wall)
        # A failed process is gone before the gate lets the next one in: it may hold a lock on what all of them create.
        async with per_home.starts(launch.provider, launch.home).passed():
            began = asyncio.get_running_loop().time()
            try:
                await transport.connection.start(supervisor, per_home.folders)
                await transport._handshake()
                transport._ready = True
            except (StartError, ProcessError, PoolError, BadReply) as error:
                await transport.close(hard=True)
                raise transport._start_failure(error, asyncio.get_running_loop().time() - began) from error
            except BaseException:
                await transport.close(hard=True)
                raise
        return transport

    @property
    def key(self) -> TransportKey:
        return self.launch.key

    @property
    def provider(self) -> Provider:
        return self.launch.provider

    @property
    def fingerprint(self) -> str:
        return self.launch.fingerprint

    @property
    def pid(self) -> int:
        return self.connection.pid

    @property
    def identity(self) -> ToolIdentity:
        """The pid with its start time, so that the process is not mistaken for a later one with the same pid."""
        found = self.connection.process.identity
        return ToolIdentity(found.pid, found.start)

    @property
    def capabilities(self) -> PromptCapabilities:
        return self.info.prompt

    @property
    def sessions(self) -> int:
        """Open sessions, and those being opened."""
        return len(self._sessions) + self._opening

    @property
    def junk(self) -> int:
        """Lines on its stdout that were no message."""
        return self.connection.junk

    @property
    def dropped(self) -> Mapping[str, int]:
        """Messages of the agent that reached no turn, by kind."""
        return {"stray": self.strays, "late": self.late, "stale": self.codec.stale, "junk": self.connection.junk}

    @property
    def closing(self) -> bool:
        """Whether the pool is ending the process, so that its exit is expected."""
        return self._closing

    @property
    def lost(self) -> TransportLost | None:
        """How the process died; None while it lives."""
        return self._lost

    def adopt(self, key: TransportKey) -> None:
        """Make a spare serve this key, and name it in errors and logs instead of the one the launch was copied from."""
        self.launch = replace(self.launch, key=key)
        self.connection.rename(self.launch)

    def on_lost(self, listener: Callable[[TransportLost], None]) -> None:
        """Call `listener` once when the process is gone; immediately if it already is."""
        if self._lost is None:
            self._listeners.append(listener)
        else:
            listener(self._lost)

    async def wait_lost(self) -> TransportLost:
        """Wait for the process's end and return it."""
        await self._gone.wait()
        return self._lost or self.connection.lost(Phase.IDLE)

    async def open(self, order: SeatOrder) -> AgentSession:
        """Open a session and attach its tools. Raises `AgentStartFailed` (phase session_open or tools),
        `ToolChannelMissing`, `TransportLost`.
        """
        return await self._carried_through(Opening(self, self._open_gate, order).new())

    async def load(
        self, memo: SessionMemo, order: SeatOrder, on_answered: Callable[[], None] = nothing
    ) -> AgentSession:
        """Restore a session of an earlier process; `on_answered` is called on the agent's answer, before the replay
        ends.

        Raises `LoadRefused` (nothing was sent), `UnknownSession`, `RecordIncomplete`, or as `open`.
        """
        check_load(self, memo, order, offered=self.info.loads, now=self._wall())
        return await self._carried_through(Opening(self, self._open_gate, order, on_answered).load(memo))

    async def probe(self, timeout: float | None = None) -> bool:
        """Whether the agent answers anything in time; an error, such as "method not found", counts as an answer."""
        try:
            await self.connection.ask(
                self.codec.probe(), deadline=timeout or self.launch.settings.deadlines.probe, phase=Phase.IDLE
            )
        except AgentFault:
            return True
        except (AgentSilent, TransportLost):
            return False
        return True

    async def memory(self) -> TreeMemory:
        """Memory of the whole process tree, read on a thread."""
        return await asyncio.get_running_loop().run_in_executor(None, self.connection.process.memory)

    def take_ownership(self) -> Callable[[bool], Awaitable[None]]:
        """Share the process: from now on only the returned call ends it (True: hard), and `close` raises."""
        self._shared = True
        return self._end

    async def close(self, *, hard: bool = False) -> None:
        """End the process and all its descendants; `hard`: without waiting for it to exit by itself. Idempotent.

        Raises `SharedProcess` after `take_ownership`.
        """
        if self._shared:
            raise SharedProcess(key=str(self.key), pid=self.pid)
        await self._end(hard)

    async def _end(self, hard: bool) -> None:
        self._closing = True
        try:
            if self.connection.started:
                if not hard and self._closing_tasks:
                    # A close ordered in the same step as the stop is already in the set: the pool orders closes first.
                    await asyncio.wait(self._closing_tasks, timeout=self.launch.settings.deadlines.close)
                process = self.connection.process
                await (process.stop(HARD) if hard else process.stop())
                if self._closing_tasks:
                    # The records of its sessions are being put away.
                    await asyncio.wait(self._closing_tasks, timeout=self.launch.settings.deadlines.close)
        finally:
            tasks = [task for task in self._tasks if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # The connection calls these.

    def notified(self, method: str, params: JsonObject) -> None:
        """Deliver one event to one session. The hot path."""
        update = self.codec.session_update(method, params)
        if update is None:
            if self.codec.carries(method):
                self._tool_router.notice(method, params)
            return
        session = self._sessions.get(update[0])
        if session is None:
            self.strays += 1
        else:
            session.receive(update[1])

    def requested(self, request_id: RpcId, method: str, params: JsonObject) -> None:
        """Answer a request of the agent, or pass it to its session or tool channel."""
        if self.codec.carries(method):
            self._tool_router.request(request_id, method, params)
            return
        wanted = self.codec.wanted(method, params)
        if isinstance(wanted, PermissionWanted):
            session = self._sessions.get(wanted.session_id)
            if session is None:
                self.strays += 1
                self.connection.answer(request_id, self.codec.permission_answer(wanted, None))
            else:
                session.permission(request_id, wanted)
        elif isinstance(wanted, ToolWanted):
            self._call_tool(request_id, wanted)
        else:
            self.connection.refuse(request_id, wanted.fault)

    def message_dropped(self, head: bytes, why: str) -> None:
        """Report a message over a size limit to the turn that it names, otherwise to the only one that runs."""
        level = logging.DEBUG if self._drop_reported else logging.WARNING
        self._drop_reported = True
        log.log(level, "%s: pid %d: %s", self.key, self.pid, why)
        named = NAMED.search(head)
        session = self._sessions.get(named[1].decode(errors="replace")) if named else None
        running = [each for each in self._sessions.values() if each.turn is not None]
        if session is None and len(running) == 1:
            session = running[0]
        if session is not None and session.turn is not None:
            session.receive(MessageDropped(why))

    def died(self, exit_code: int | None, stderr: tuple[str, ...]) -> None:
        """Record the death; fail the sessions first, then call the listeners of `on_lost`."""
        lost = self._lost = self.connection.lost(Phase.IDLE)
        log.log(
            # The caller of a failed start gets an error; the log need not warn as well.
            logging.DEBUG if self._closing or not self._ready else logging.WARNING,
            "%s: pid %d is gone, exit code %s, %d sessions on it, stderr: %s",
            *(self.key, self.pid, exit_code, len(self._sessions), " | ".join(stderr)),
        )
        for session in list(self._sessions.values()):
            session.die(self.connection.lost(Phase.IDLE if session.turn is None else Phase.PROMPT))
            self.run_closing_task(self.put_away(session))
        self._sessions.clear()
        self._tool_router.close()
        self._gone.set()
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(lost)

    # Sessions and openings call these.

    def wall(self) -> float:
        """The injected wall clock, in seconds."""
        return self._wall()

    def hold(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Own a task until it is done; log a failure that its awaiter does not see."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._drop)
        return task

    def run_closing_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Own a task that ends a session. `close` waits for it, but cancels the tasks of `hold`."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._closing_tasks.add(task)
        task.add_done_callback(self._closing_tasks.discard)
        return task

    def enter(self, session: AgentSession) -> None:
        """Register a session: its updates are delivered to it from now on."""
        self._sessions[session.id] = session

    def leave(self, session_id: str) -> None:
        """Unregister a session: its updates count as strays from now on."""
        self._sessions.pop(session_id, None)
        self.codec.forget(session_id)

    def holds(self, session_id: str) -> bool:
        """Whether the session is open on this process."""
        return session_id in self._sessions

    def own(self, ticket: ToolTicket) -> None:
        """Allow the ticket's use to descendants of this process only."""
        ticket.owned_by(self.identity)

    def equip(self, order: SeatOrder) -> SeatOrder:
        """The order, with the declaration that its tool channel needs. Raises `ToolChannelMissing`."""
        return self._tool_router.equip(order, self.info)

    async def end_session(self, session: AgentSession) -> bool:
        """End a session by the strongest request that this agent has; returns whether the agent ended it."""
        if self._sessions.pop(session.id, None) is None:
            return True  # it ended with its process
        self.codec.forget(session.id)
        ended = await self._let_go(session)
        if not session.abandoned_mid_turn:
            await self.put_away(session)
        return ended

    async def put_away(self, session: AgentSession) -> None:
        """Archive the record of a session to which this process writes nothing any more."""
        await self._archive.put_away(session, self.launch.settings.deadlines.close)

    async def take_back(self, session: AgentSession) -> None:
        """Bring the record of a session back before it is loaded."""
        await self._archive.take_back(session, self.launch.settings.deadlines.close)

    async def _let_go(self, session: AgentSession) -> bool:
        if self.connection.stopping:
            return True  # it ends with its process
        ended = False
        try:
            ended = await self._ask_to_close(session.id)
        except (AgentFault, AgentSilent, TransportLost, ProcessError) as error:
            level = logging.DEBUG if self._closing else logging.WARNING
            log.log(level, "%s: session %s was not ended: %s", self.key, session.id, error)
            ended = self._lost is not None
        if not ended:
            self.leaked += 1
        return ended

    async def _ask_to_close(self, session_id: str) -> bool:
        verb = self.provider.close
        if verb is CloseVerb.KILL:
            # Not `close`: it cancels the tasks of `hold`, and an open that fails for lack of tools is one of them.
            self._closing = True
            await self.connection.process.stop()
            return True
        if verb is CloseVerb.NONE:
            return False
        calls = self.codec.close(session_id, offered=self.info.closes)
        for call in calls:
            await self.connection.ask(call, deadline=self.launch.settings.deadlines.close, phase=Phase.IDLE)
        return bool(calls)

    # The start, and the shell around open and load.

    async def _handshake(self) -> None:
        deadline = self.launch.settings.deadlines.start
        call = self.codec.hello()
        result = await self.connection.ask(call, deadline=deadline, phase=Phase.HANDSHAKE)
        self.info = self.codec.welcomed(result)
        for notice in self.codec.greetings():
            self.connection.tell(notice)

    def _start_failure(self, error: Exception, waited: float) -> AgentStartFailed:
        lost = error if isinstance(error, TransportLost) else None
        phase = Phase.HANDSHAKE if self.connection.started else Phase.SPAWN
        why = str(error)
        if lost is not None:
            why = "it ended before it answered initialize; is this an agent, and was it started as one?"
        elif isinstance(error, AgentSilent):
            why = "it did not answer initialize in time; is this an agent, and was it started as one?"
        if self.connection.sample:
            why += f"; it said instead: {self.connection.sample!r}"
        return self.connection.failure(phase, why, waited, lost, shortage=isinstance(error, ResourcesExhausted))

    async def _carried_through(self, work: Coroutine[Any, Any, AgentSession]) -> AgentSession:
        if self._lost is not None:
            work.close()
            raise self.connection.lost(Phase.SESSION_OPEN)
        self._opening += 1
        task: asyncio.Task[AgentSession] = self.hold(work)
        task.add_done_callback(self._opening_done)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                # The process's end cancelled the open. The caller was not cancelled and must not see a CancelledError.
                raise self.connection.lost(Phase.SESSION_OPEN) from None
            task.add_done_callback(self._close_abandoned)
            raise

    def _opening_done(self, _task: "asyncio.Task[AgentSession]") -> None:
        self._opening -= 1

    def _close_abandoned(self, task: "asyncio.Task[AgentSession]") -> None:
        """Close the session of an open whose caller is gone: no other component knows of it."""
        if not task.cancelled() and task.exception() is None and not self._closing:
            self.hold(task.result().close())

    def _call_tool(self, request_id: RpcId, wanted: ToolWanted) -> None:
        session = self._sessions.get(wanted.session_id)
        if session is None:
            self.strays += 1
            self.connection.refuse(request_id, RpcFault(INVALID_PARAMS, "no such session"))
        else:
            session.tool(request_id, wanted)

    def _drop(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, PoolError):
            log.error("%s: a task failed: %s", self.key, error, exc_info=error)
