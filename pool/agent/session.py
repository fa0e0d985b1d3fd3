"""One agent-side session: one turn at a time, and nothing of one turn in the next.

Rules:
- The turn is claimed before the first await: a second prompt raises `SessionBusy` and is never sent. Real agents have
  six ways of mishandling a second prompt.
- A consumer's turn may end before the agent's does (too slow, silent, gone). The session stays busy until the agent has
  settled too; if it does not within the cancel grace, the session is sealed and accepts no further prompt.
- Events between turns are counted (`late`), not kept, and never enter a turn. Events that an agent repeats while it
  loads serve one purpose: to check that it has what was said last (`ReplayCheck`). The transcript is the gateway's.
- After a cancelled turn the next prompt waits for a short quiet period: late events do not name their turn.
- A permission request that is pending when the turn is cancelled is answered "cancelled" immediately.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from typing import Any, Protocol, TypeVar

from ostler.pool.agent.codec import Codec, PermissionWanted, ToolWanted
from ostler.pool.agent.connection import AgentConnection, Pending
from ostler.pool.agent.replay_check import WORDS, LastPrompt, ReplayCheck
from ostler.pool.agent.requests import OpenRequests
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.errors import (
    AgentFault,
    AgentSilent,
    BadDirectory,
    Phase,
    PoolError,
    SessionBusy,
    SessionEnded,
    TransportLost,
    UnknownSession,
)
from ostler.pool.events import AgentEvent, Finished, PermissionAsked, StopReason, Text, Thought, ToolStarted
from ostler.pool.launch.builder import Launch
from ostler.pool.launch.settings import REPLAY_AT_MOST
from ostler.pool.order import LastTexts, SeatOrder, SessionMemo
from ostler.pool.prompt import PromptCapabilities, PromptPart, check_prompt
from ostler.pool.provider import Level
from ostler.wire.rpc import RpcFault, RpcId

log = logging.getLogger(__name__)
T = TypeVar("T")

SILENCE_TICKS = 4
"""A turn's silence is checked this many times within its limit, so it is noticed at most a quarter late."""
QUIET_AT_MOST = 1.0
MORE_QUIET = 5
"""Factor on the quiet period that ends a replay, while what was said last has not been found in it: on a busy machine
an agent may pause, or begin late.
"""
WELL = frozenset({StopReason.DONE, StopReason.LIMIT})
"""Stop reasons after which an agent has the prompt and its answer on record."""
ANSWERS = frozenset({Text, Thought, ToolStarted, PermissionAsked})
"""Events that begin an answer; agents send other events before they have asked their model."""


class Host(Protocol):
    """What a session needs of its transport."""

    launch: Launch
    codec: Codec
    connection: AgentConnection
    late: int

    @property
    def capabilities(self) -> PromptCapabilities: ...
    def wall(self) -> float: ...
    def hold(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]": ...
    def run_closing_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]": ...
    async def wait_lost(self) -> TransportLost: ...
    async def end_session(self, session: "AgentSession") -> bool: ...


class AgentSession:
    """One session of an agent process. Opened by `Transport.open` or `Transport.load`."""

    def __init__(self, host: Host, session_id: str, order: SeatOrder, *, memo: SessionMemo | None = None) -> None:
        self.id = session_id
        self.order = order
        self.mode: str | None = None
        self.model: str | None = None
        self.late = 0
        """Events that arrived while no turn ran."""
        self.abandoned_mid_turn = False
        """The agent was still in a turn when the session was given up, and may go on with it unseen."""
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._provider = host.launch.provider
        self._deadlines = host.launch.settings.deadlines
        self._loading = memo is not None
        said = memo.said if memo else LastTexts()
        self._replay_check = ReplayCheck(said, self._provider.replays_noise)
        self._last_replayed_at = 0.0
        """When the agent last repeated something."""
        self._turn: AgentTurn | None = None
        self._sent = False
        self._cancel_said = False
        self._call_id = 0
        self._sealed: str | None = None
        self._closing: asyncio.Task[bool] | None = None
        self._quiet_until = 0.0
        self._timers: list[asyncio.TimerHandle] = []
        self._unanswered: Callable[[], None] | None = None
        self._requests = OpenRequests(host, session_id, order, self._announce, limit=host.launch.settings.open_requests)
        self._opened_at = memo.opened_at if memo else host.wall()
        self._last_turn_at = memo.last_turn_at if memo else self._opened_at
        self._last = LastPrompt(said)
        self._replay_unchecked = False
        """Whether the beginning of the answer is still to be noted (`_note_beginning`)."""

    @property
    def cwd(self) -> str:
        """The directory that the session works in."""
        return self.order.cwd

    @property
    def sealed(self) -> str | None:
        """Why no further prompt is accepted; None while the session is good."""
        return self._sealed

    @property
    def turn(self) -> AgentTurn | None:
        """The running turn: running for the agent, even if its consumer is done with it."""
        return self._turn

    @property
    def memo(self) -> SessionMemo:
        """The facts that another process needs to load this session."""
        return SessionMemo(self.id, self.cwd, self._opened_at, self._last_turn_at, self._last.said)

    @property
    def recalled(self) -> int:
        """Events of the conversation that the agent repeated while it loaded; 0 for a new session."""
        return self._replay_check.recalled

    @property
    def remembers(self) -> bool:
        """Whether the replay of the load contains what was said last."""
        return self._replay_check.holds

    def on_answer(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, soon after the next answer has begun or its turn has ended without one."""
        self._unanswered, self._replay_unchecked = listener, True

    async def prompt(self, parts: Sequence[PromptPart], level: Level | None = None) -> AgentTurn:
        """Send a prompt.

        Raises `SessionBusy`, `SessionEnded`, `PromptTooLarge`, `PromptUnsupported` (nothing was sent), `BadDirectory`
        (the session's directory leads elsewhere now), `AgentSilent` (the agent takes no more bytes) or `TransportLost`
        (phase idle if the process had ended before anything was sent). Later failures are reported in the turn's
        `Finished`.
        """
        self._require_free()
        parts = self._host.launch.plain.all(parts)
        check_prompt(parts, self._provider, self._host.capabilities)
        turn = self._turn = AgentTurn(self._stop)
        self._sent = self._cancel_said = False
        try:
            await require_in_place(self.order)
            await self._wait_until_quiet()
            await self._host.connection.wait_writable("prompt", Phase.IDLE)
            await self._require_living()
            self.require_good()
            if turn.cancelling:
                self._release(turn, Finished(StopReason.CANCELLED))
            else:
                self._send(turn, parts, level)
        except BaseException as error:
            self._release(turn, Finished(StopReason.FAILED, str(error)))
            raise
        return turn

    async def cancel(self) -> None:
        """Cancel the running turn, if any, and wait for its end: the cancel grace at most."""
        turn = self._turn
        if turn is not None:
            turn.cancel()
            await turn.ended()

    async def close(self) -> bool:
        """End the session. True: the agent ended it. False: it is given up and counted as leaked. Idempotent."""
        if self._closing is None:
            # A task of the transport: neither a caller that gives up nor the transport's end cancels it.
            self._closing = self._host.run_closing_task(self._close())
        return await asyncio.shield(self._closing)

    # The transport calls these.

    def receive(self, event: AgentEvent) -> None:
        """Handle an event of this session; called in wire order."""
        turn = self._turn
        if turn is None or not self._sent:
            self._handle_outside_turn(event)
        elif type(event) is Finished:
            self._settle(turn, event)
        elif type(event) is Text and self._strips(event.text):
            return
        elif not turn.put(event):
            why = "the consumer is too slow: more waits for it than may be held; the turn was cancelled"
            self._give_up(turn, Finished(StopReason.FAILED, why))
        elif turn.cancelling and not self._cancel_said:
            # The cancel came before the agent could cancel its turn; it may be able to from this event on.
            self._tell_cancel()
        elif self._replay_unchecked:
            self._note_beginning(type(event))

    def permission(self, request_id: RpcId, wanted: PermissionWanted) -> None:
        """Ask the policy for a decision; without a turn that can want one, decline."""
        turn = self._turn
        if turn is None or turn.cancelling or not self._sent:
            self._requests.decline(request_id, wanted)
            return
        if self._requests.full:
            self._requests.refuse(request_id)
            return
        self.receive(wanted.asked)
        self._requests.decide(request_id, wanted)

    def tool(self, request_id: RpcId, wanted: ToolWanted) -> None:
        """Run a tool that the agent calls without a relay."""
        self._requests.call(request_id, wanted)

    async def replayed(self) -> None:
        """Wait until the agent has repeated the conversation; later events no longer count as replay."""
        quiet, began = self._provider.replay_quiet, self._loop.time()
        self._last_replayed_at = began
        while quiet and not self._host.connection.ended and self._loop.time() < began + REPLAY_AT_MOST:
            silent = quiet * (1 if self.remembers else MORE_QUIET)
            left = self._last_replayed_at + silent - self._loop.time()
            if left <= 0:
                break
            # Sleep in steps: an event in between may be the one searched for, and the agent may die.
            await asyncio.sleep(min(left, quiet))
        self._loading = False

    def die(self, lost: TransportLost) -> None:
        """End the session with its process; the error is the end of a running turn."""
        self.seal(str(lost), Finished(StopReason.FAILED, str(lost), cause=lost))

    def seal(self, why: str, end: Finished | None = None) -> None:
        """Accept no further prompt and end a running turn now. The first reason given stays."""
        if self._sealed is None:
            self._sealed = why
        turn = self._turn
        if turn is not None:
            self.abandoned_mid_turn = self._sent
            self._release(turn, end or Finished(StopReason.CANCELLED if turn.cancelling else StopReason.FAILED, why))
        self._requests.drop_calls()

    # The turn.

    def _announce(self, event: AgentEvent) -> None:
        """Put an event of the pool, not of the agent, into the running turn."""
        if self._turn is not None:
            self._turn.put(event)

    def _require_free(self) -> None:
        if self._host.connection.ended:
            raise self._host.connection.lost(Phase.IDLE)
        self.require_good()
        if self._turn is not None:
            raise SessionBusy(self.id)

    async def _require_living(self) -> None:
        """Raise `TransportLost` if the process has exited unnoticed: a prompt sent now would be lost, and its caller
        could not tell whether the agent had read it.
        """
        if self._host.connection.gone():
            await self._host.wait_lost()
            raise self._host.connection.lost(Phase.IDLE)

    def require_good(self) -> None:
        """Raise `SessionEnded` for a sealed session."""
        if self._sealed is not None:
            raise SessionEnded(self.id, self._sealed)

    async def _wait_until_quiet(self) -> None:
        latest = self._loop.time() + QUIET_AT_MOST
        # No event can be awaited: quiet is the absence of events, and each late event moves the deadline.
        while (wait := min(self._quiet_until, latest) - self._loop.time()) > 0:  # noqa: ASYNC110 (see above)
            await asyncio.sleep(wait)

    def _send(self, turn: AgentTurn, parts: Sequence[PromptPart], level: Level | None) -> None:
        def settle(result: Any, fault: RpcFault | None) -> None:
            if self._turn is turn:
                self._answered(turn, result, fault)

        def fail(_lost: TransportLost) -> None:
            """Nothing to do: the transport tells every session of the death, and the session its turn."""

        self._last.ask(parts)
        self._replay_unchecked = True
        call = self._host.codec.prompt(self.id, parts, level)
        self._call_id = self._host.connection.call(call, Pending(call.method, Phase.PROMPT, settle, fail))
        self._sent = True
        self._watch(turn, turn.count, 0)

    def _answered(self, turn: AgentTurn, result: Any, fault: RpcFault | None) -> None:
        if fault is not None:
            self._host.codec.failed(self.id, fault)
            self._settle(turn, self._read_fault(turn, fault))
            return
        finished = self._host.codec.replied(self.id, result)
        if finished is not None:
            self._settle(turn, finished)
        elif turn.cancelling and not self._cancel_said:
            self._tell_cancel()

    def _read_fault(self, turn: AgentTurn, fault: RpcFault) -> Finished:
        reading = self._provider.faults
        message = self._host.connection.described(fault)
        if turn.cancelling and fault.code in reading.cancelled:
            if fault.code in reading.spoiled:
                self._sealed = self._sealed or "the agent went on with a cancelled turn"
            return Finished(StopReason.CANCELLED)
        cause: PoolError = AgentFault(provider=self._provider.name, method="prompt", code=fault.code, message=message)
        if fault.code in reading.unknown_session and reading.session_words.search(message):
            cause = UnknownSession(provider=self._provider.name, session_id=self.id)
            self._sealed = self._sealed or str(cause)
        return Finished(StopReason.FAILED, str(cause), cause=cause)

    def _settle(self, turn: AgentTurn, finished: Finished) -> None:
        """Release the session when the agent's turn is over; some agents send the last updates a little later."""
        late = self._provider.late_updates
        if late and finished.cause is None:
            self._timers.append(self._loop.call_later(late, self._release, turn, finished))
        else:
            self._release(turn, finished)

    def _release(self, turn: AgentTurn, finished: Finished) -> None:
        """Make the session free for the next prompt and give the consumer the end."""
        if self._turn is not turn:
            return
        self._requests.drop_permissions()
        self._requests.drop_calls()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._host.connection.forget(self._call_id)
        if self._sent:
            self._last.end(well=finished.reason in WELL)
        self._turn, self._sent = None, False
        self._last_turn_at = self._host.wall()
        if turn.cancelling:
            self._quiet_until = self._loop.time() + self._provider.cancel_quiet
        turn.end(finished)
        if self._unanswered is not None:
            self._tell_answered(self._unanswered)

    def _note_beginning(self, kind: type[AgentEvent]) -> None:
        if kind in WORDS:
            self._last.wordless = False
        if self._unanswered is not None and kind in ANSWERS:
            self._tell_answered(self._unanswered)
        self._replay_unchecked = self._last.wordless or self._unanswered is not None

    def _tell_answered(self, listener: Callable[[], None]) -> None:
        """Call the listener after the consumer of this event has run, so that the consumer need not wait for it. The
        context is empty: the listener belongs to no request.
        """
        self._unanswered = None
        self._loop.call_soon(listener, context=Context())

    def _stop(self, turn: AgentTurn) -> None:
        """Called by `AgentTurn.cancel`, also when the consumer has left."""
        if self._turn is not turn:
            return
        if self._sent:
            self._tell_cancel()
            self._timers.append(self._loop.call_later(self._deadlines.cancel_grace, self._lose_patience, turn))
        # After the cancel: an agent that gets "cancelled" for its question first may end the turn as if it were done.
        self._requests.drop_permissions()

    def _tell_cancel(self) -> None:
        said = self._host.codec.cancel(self.id)
        if said is not None:
            self._cancel_said = True
            self._host.connection.tell(said)

    def _lose_patience(self, turn: AgentTurn) -> None:
        if self._turn is turn:
            grace = self._deadlines.cancel_grace
            self.seal(f"the agent did not end the turn within {grace:.1f} s after it was cancelled")

    def _give_up(self, turn: AgentTurn, finished: Finished) -> None:
        """End the turn for the consumer now; the session stays busy until the agent has stopped."""
        turn.end(finished)
        if not turn.cancelling:
            turn.cancelling = True
            self._stop(turn)

    def _watch(self, turn: AgentTurn, seen: int, silent: int) -> None:
        """Look for a sign of life every quarter of the limit."""
        if self._turn is not turn:
            return
        limit = self._deadlines.prompt_inactivity
        if turn.count != seen or self._requests.waiting:
            silent = 0
        elif silent >= SILENCE_TICKS:
            cause = AgentSilent(provider=self._provider.name, method="prompt", waited=limit)
            self._give_up(turn, Finished(StopReason.FAILED, str(cause), cause=cause))
            return
        step = limit / SILENCE_TICKS
        self._timers = [timer for timer in self._timers if timer.when() > self._loop.time()]
        self._timers.append(self._loop.call_later(step, self._watch, turn, turn.count, silent + 1))

    def _strips(self, text: str) -> bool:
        pattern = self._provider.strips
        return pattern is not None and pattern.fullmatch(text) is not None

    def _handle_outside_turn(self, event: AgentEvent) -> None:
        """Handle an event outside any turn: replay while loading, otherwise late."""
        if not self._loading:
            self.late += 1
            self._host.late += 1
            if self._quiet_until > self._loop.time():
                self._quiet_until = self._loop.time() + self._provider.cancel_quiet
            return
        self._last_replayed_at = self._loop.time()
        self._replay_check.record(event)

    async def _close(self) -> bool:
        turn = self._turn
        if turn is not None:
            turn.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._deadlines.close):
                    await turn.ended()
        self.seal("it was closed")
        return await self._host.end_session(self)


async def require_in_place(order: SeatOrder) -> None:
    """Raise `BadDirectory` if the session's path leads to another directory than at its opening.

    Agents know a directory by its name only, so no prompt is sent after such a change. A directory that does not exist
    leads nowhere else; the agent reports that itself. Does not suspend while nothing has changed.
    """
    if order.folder is None:
        return
    try:
        await order.folder.confirm()
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadDirectory(order.cwd, error.strerror or str(error)) from error
