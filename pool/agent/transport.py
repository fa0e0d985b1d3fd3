"""One live agent process that has answered its handshake, and the sessions on it.

Rules:
- A transport dies once. Every open, load and turn learns it with key, pid, exit code and the last stderr lines; then
  the listeners of `on_lost` do. Exit code 0 is no clean end.
- Updates of sessions that we have not opened reach nobody, and are counted (`strays`).
- A polite end is said in the order in which agents save: the closes that were ordered first, while stdin is open and
  for the time of one close at most, then EOF. Some write a session to disk only when it is closed or when they end by
  themselves (a SIGKILL cost one its last turn and another the whole session), so only an agent that ignores EOF is
  signalled. What nobody ordered closed is not closed now: for it the end of the process is its end.
- Tasks run in an empty context: nothing of the request that happened to start a process lives on in it.
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
from ostler.process.errors import ProcessError, ResourcesExhausted, StartError
from ostler.process.stop_sequence import StopDeadlines
from ostler.process.supervisor import ProcessSupervisor
from ostler.process.tree import TreeMemory
from ostler.wire.json import JsonObject
from ostler.wire.rpc import INVALID_PARAMS, RpcFault, RpcId

log = logging.getLogger(__name__)

T = TypeVar("T")
NAMED = re.compile(rb'"(?:sessionId|threadId)"\s*:\s*"([^"\\]+)"')
"""The session of a message of which nothing but the beginning is known."""
HARD = StopDeadlines(eof=0, terminate=0)


class Transport:
    """Made by `start`."""

    def __init__(self, launch: Launch, *, commons: PerHome, wall: Callable[[], float] = time.time) -> None:
        self.launch = launch
        self.codec = codec_for(launch)
        self.connection = AgentConnection(launch, self, versioned=self.codec.versioned)
        self.info = AgentInfo("", "")
        self.opened = 0
        """Sessions opened or loaded so far; what `recycle_after` counts."""
        self.leaked = 0
        """Sessions forgotten because the agent cannot end them, or did not."""
        self.strays = 0
        self._told_of_drop = False
        """Updates and requests for sessions that we do not hold."""
        self.late = 0
        """Updates of sessions that had no running turn."""
        self._archive = commons.archive(launch.provider, launch.command.env.get("HOME", launch.home))
        self._toolway = ToolChannelRouter(launch, self.connection)
        self._gate = commons.opens(launch.provider, launch.home)
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
        cls, launch: Launch, *, keeper: ProcessSupervisor, commons: PerHome, wall: Callable[[], float] = time.time
    ) -> "Transport":
        """Start the process and shake hands, or raise `AgentStartFailed` within `deadlines.start` of its turn,
        with nothing left."""
        transport = cls(launch, commons=commons, wall=wall)
        # What failed is gone before the next one is let in: it may have locked what all of them make.
        async with commons.starts(launch.provider, launch.home).passed():
            began = asyncio.get_running_loop().time()
            try:
                await transport.connection.start(keeper, commons.folders)
                await transport._shake_hands()
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
        """The process, so that it cannot be mistaken for a later one of the same pid."""
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
        """What it said that reached no turn, by kind."""
        return {"stray": self.strays, "late": self.late, "stale": self.codec.stale, "junk": self.connection.junk}

    @property
    def closing(self) -> bool:
        """Its end is our doing."""
        return self._closing

    @property
    def lost(self) -> TransportLost | None:
        """How it died; None while it lives."""
        return self._lost

    def adopt(self, key: TransportKey) -> None:
        """A spare serves this key from here on, and names it in errors and log: the one it was started for is another's
        directory."""
        self.launch = replace(self.launch, key=key)
        self.connection.rename(self.launch)

    def on_lost(self, listener: Callable[[TransportLost], None]) -> None:
        """Called once when the process is gone; at once when it already is."""
        if self._lost is None:
            self._listeners.append(listener)
        else:
            listener(self._lost)

    async def wait_lost(self) -> TransportLost:
        """Wait for its end."""
        await self._gone.wait()
        return self._lost or self.connection.lost(Phase.IDLE)

    async def open(self, order: SeatOrder) -> AgentSession:
        """A session with its tools attached. Raises `AgentStartFailed` (phase session_open or tools),
        `ToolChannelMissing`, `TransportLost`."""
        return await self._carried_through(Opening(self, self._gate, order).new())

    async def load(self, memo: SessionMemo, order: SeatOrder, made: Callable[[], None] = nothing) -> AgentSession:
        """A session of an earlier process; `made` is called when the agent has answered, before its replay is over.
        Raises `LoadRefused` (nothing was asked), `UnknownSession`, `RecordIncomplete`, or as `open`."""
        check_load(self, memo, order, offered=self.info.loads, now=self._wall())
        return await self._carried_through(Opening(self, self._gate, order, made).load(memo))

    async def probe(self, timeout: float | None = None) -> bool:
        """True when the agent answers anything at all in time, also that it does not know the question."""
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
        """Of the whole process tree."""
        return await asyncio.get_running_loop().run_in_executor(None, self.connection.process.memory)

    def take_ownership(self) -> Callable[[bool], Awaitable[None]]:
        """Share the process: from here on only the returned call ends it (True: hard), and `close` is refused."""
        self._shared = True
        return self._end

    async def close(self, *, hard: bool = False) -> None:
        """End the process and everything below it; `hard` without waiting for politeness. Idempotent. Raises
        `SharedProcess` when it is not the caller's to end."""
        if self._shared:
            raise SharedProcess(key=str(self.key), pid=self.pid)
        await self._end(hard)

    async def _end(self, hard: bool) -> None:
        self._closing = True
        try:
            if self.connection.started:
                if not hard and self._closing_tasks:
                    # A close that comes in the same step as the stop is in here already: the pool orders it first.
                    await asyncio.wait(self._closing_tasks, timeout=self.launch.settings.deadlines.close)
                process = self.connection.process
                await (process.stop(HARD) if hard else process.stop())
                if self._closing_tasks:
                    # What it left behind is being put away.
                    await asyncio.wait(self._closing_tasks, timeout=self.launch.settings.deadlines.close)
        finally:
            tasks = [task for task in self._tasks if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # What the connection delivers.

    def notified(self, method: str, params: JsonObject) -> None:
        """The hot path: one event to one session."""
        told = self.codec.session_update(method, params)
        if told is None:
            if self.codec.carries(method):
                self._toolway.notice(method, params)
            return
        session = self._sessions.get(told[0])
        if session is None:
            self.strays += 1
        else:
            session.receive(told[1])

    def requested(self, request_id: RpcId, method: str, params: JsonObject) -> None:
        """The agent asks something of us."""
        if self.codec.carries(method):
            self._toolway.request(request_id, method, params)
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
        """A message was over a limit. Told to the turn that it names, else to the only one that runs."""
        level = logging.DEBUG if self._told_of_drop else logging.WARNING
        self._told_of_drop = True
        log.log(level, "%s: pid %d: %s", self.key, self.pid, why)
        named = NAMED.search(head)
        session = self._sessions.get(named[1].decode(errors="replace")) if named else None
        running = [each for each in self._sessions.values() if each.turn is not None]
        if session is None and len(running) == 1:
            session = running[0]
        if session is not None and session.turn is not None:
            session.receive(MessageDropped(why))

    def died(self, exit_code: int | None, stderr: tuple[str, ...]) -> None:
        """The process is gone; everybody learns it, sessions first."""
        lost = self._lost = self.connection.lost(Phase.IDLE)
        log.log(
            # A start that fails is told by its error.
            logging.DEBUG if self._closing or not self._ready else logging.WARNING,
            "%s: pid %d is gone, exit code %s, %d sessions on it, stderr: %s",
            *(self.key, self.pid, exit_code, len(self._sessions), " | ".join(stderr)),
        )
        for session in list(self._sessions.values()):
            session.die(self.connection.lost(Phase.IDLE if session.turn is None else Phase.PROMPT))
            self.run_closing_task(self.put_away(session))
        self._sessions.clear()
        self._toolway.close()
        self._gone.set()
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(lost)

    # What sessions need.

    def wall(self) -> float:
        """Wall-clock seconds."""
        return self._wall()

    def hold(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Own a task until it is done; a failure that nobody awaits is logged."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._drop)
        return task

    def run_closing_task(self, goodbye: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Own the end of a session. It is waited for when the process is ended, not cut like what `hold` owns."""
        task = asyncio.get_running_loop().create_task(goodbye, context=Context())
        self._closing_tasks.add(task)
        task.add_done_callback(self._closing_tasks.discard)
        return task

    def enter(self, session: AgentSession) -> None:
        """From here on its updates find it."""
        self._sessions[session.id] = session

    def leave(self, session_id: str) -> None:
        """Its updates are strays from here on."""
        self._sessions.pop(session_id, None)
        self.codec.forget(session_id)

    def holds(self, session_id: str) -> bool:
        """Whether it is open here."""
        return session_id in self._sessions

    def own(self, ticket: ToolTicket) -> None:
        """Only descendants of this process may use the ticket."""
        ticket.owned_by(self.identity)

    def equip(self, order: SeatOrder) -> SeatOrder:
        """The order, with what its tools' channel has to say. Raises `ToolChannelMissing`."""
        return self._toolway.equip(order, self.info)

    async def end_session(self, session: AgentSession) -> bool:
        """By the strongest verb that the agent really has."""
        if self._sessions.pop(session.id, None) is None:
            return True  # it went with its process
        self.codec.forget(session.id)
        ended = await self._let_go(session)
        if not session.abandoned_mid_turn:
            await self.put_away(session)
        return ended

    async def put_away(self, session: AgentSession) -> None:
        """The record of a session that this process will write nothing to any more."""
        await self._archive.put_away(session, self.launch.settings.deadlines.close)

    async def take_back(self, session: AgentSession) -> None:
        """The record of a session that is to be loaded."""
        await self._archive.take_back(session, self.launch.settings.deadlines.close)

    async def _let_go(self, session: AgentSession) -> bool:
        if self.connection.stopping:
            return True  # it goes with its process
        ended = False
        try:
            ended = await self._say_goodbye(session.id)
        except (AgentFault, AgentSilent, TransportLost, ProcessError) as error:
            level = logging.DEBUG if self._closing else logging.WARNING
            log.log(level, "%s: session %s was not ended: %s", self.key, session.id, error)
            ended = self._lost is not None
        if not ended:
            self.leaked += 1
        return ended

    async def _say_goodbye(self, session_id: str) -> bool:
        verb = self.provider.close
        if verb is CloseVerb.KILL:
            # Not `close`: it would cancel the tasks we hold, and an open that fails for want of tools is one of them.
            self._closing = True
            await self.connection.process.stop()
            return True
        if verb is CloseVerb.NONE:
            return False
        calls = self.codec.close(session_id, offered=self.info.closes)
        for call in calls:
            await self.connection.ask(call, deadline=self.launch.settings.deadlines.close, phase=Phase.IDLE)
        return bool(calls)

    # Start, open and load.

    async def _shake_hands(self) -> None:
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
                # The end of the process cut the open, nobody its caller, who must not be told that he was cancelled.
                raise self.connection.lost(Phase.SESSION_OPEN) from None
            task.add_done_callback(self._end_orphan)
            raise

    def _opening_done(self, _task: "asyncio.Task[AgentSession]") -> None:
        self._opening -= 1

    def _end_orphan(self, task: "asyncio.Task[AgentSession]") -> None:
        """Its caller is gone, so nobody would ever close it."""
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
