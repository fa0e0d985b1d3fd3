"""A session's seat in an agent process, and what that agent knows of the conversation.

Rules:
- `known` is the part of the stored transcript that the agent has seen. The rest is told with the next prompt. If an
  agent knows something that is not in the transcript, its seat gets no more prompts: the session takes a new seat and
  replays.
- Changed tools are announced to an agent that accepts such news at any time, and its prompt waits until it has read
  them. A seat of any other agent, or of one that does not read them in time, is not used again: its next prompt would
  have the old tools.
- A used seat is never given to another session; releasing it closes the agent's session.
- A seat is kept after a turn only if its agent's memory and the transcript are the same.
- If a seat's process is to be replaced, or its agent cannot reach the tools any more, an idle session leaves the seat
  at once, a busy one at the end of its turn. Lost tools are reported once, in the next turn.
- While the pool has no free seat, sessions between turns are asked to release theirs.
- The memory of a released seat lets its agent load the session again, if nothing was said elsewhere since.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ostler.bridge.errors import BindingRevoked
from ostler.bridge.offer import Offer
from ostler.bridge.session_binding import SessionBinding
from ostler.gateway.model.ask import Ask
from ostler.gateway.model.continuity import Known
from ostler.gateway.model.errors import SeatLost
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.turns.deps import SessionDeps
from ostler.gateway.turns.turn import Turn
from ostler.pool.core.values import RetireReason
from ostler.pool.keys import TransportKey
from ostler.pool.lease import Lease
from ostler.pool.order import SessionMemo
from ostler.pool.ports import PermissionPolicy, ToolSet
from ostler.pool.provider import ToolNews
from ostler.wire.json import JsonObject

TOLD = 5.0
"""Seconds that an agent has to read a changed list of tools."""


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """What remains of a released seat: enough to ask an agent to load its session again."""

    memo: SessionMemo
    known: Known
    provider: str
    tools: tuple[JsonObject, ...]

    def serves(self, ask: Ask, tools: tuple[JsonObject, ...]) -> bool:
        """Whether the loaded session would have the right tools."""
        return self.provider == ask.key.provider and self.tools == tools


@dataclass(eq=False)
class SessionSeat:
    """A lease that one session uses."""

    lease: Lease
    tools: tuple[JsonObject, ...] = ()
    known: Known | None = None
    """None: the agent knows nothing yet, or more than the transcript says."""
    instructions: str | None = None
    """The instructions that the agent was told."""

    def serves(self, ask: Ask) -> bool:
        """Whether the next prompt may go to this seat. Does not check what its agent knows."""
        lease = self.lease
        if lease.lost is not None or lease.move is not None or lease.session.sealed is not None:
            return False
        return lease.key == ask.key

    def offer(self, kit: Offer, context: object) -> None:
        """Publish the tools: calls that begin from now on reach this dispatcher. Raises `SeatLost` if the seat has lost
        its agent, or the agent its tools."""
        binding = self._binding
        if binding is None:
            return
        self.tools = tuple(kit.definitions)
        try:
            binding.publish(self.tools, kit.dispatcher, context)
        except BindingRevoked as revoked:
            # A lost relay may be noticed before the end of the agent that caused it.
            raise SeatLost(str(self.lease.lost or self.lease.move or revoked)) from revoked

    async def retell(self, kit: Offer, context: object) -> bool:
        """Publish changed tools and wait until the agent has read them. False if it did not read them in time."""
        binding = self._binding
        if binding is None:
            return False
        self.offer(kit, context)
        try:
            async with asyncio.timeout(TOLD):
                await binding.told()
        except (TimeoutError, BindingRevoked):
            return False
        return True

    @property
    def lost_tools(self) -> bool:
        """Whether its agent lives but cannot reach the tools any more."""
        return self.lease.move == RetireReason.TOOLS_LOST.value and self.lease.lost is None

    @property
    def _binding(self) -> SessionBinding | None:
        ticket = self.lease.ticket
        if ticket is None:
            return None
        # The pool knows the ticket by its protocol only; the composition root connected it to the bridge.
        if not isinstance(ticket, SessionBinding):
            raise TypeError(f"the pool was given a tool port that is no bridge: {type(ticket).__name__}")
        return ticket

    def memory(self) -> SessionMemory | None:
        """Return what to keep when the seat is released; None if its agent knows more than the transcript."""
        if self.known is None:
            return None
        return SessionMemory(self.lease.session.memo, self.known, self.lease.key.provider, self.tools)

    def release(self) -> None:
        """Release the seat; idempotent."""
        self.lease.release()


log = logging.getLogger(__name__)

PRESSING = 0.05
"""Seconds between attempts to have an idle session release its seat."""


class SeatManager:
    """The seat of one session, from claim to release."""

    def __init__(
        self,
        session_id: str,
        owner: str,
        deps: SessionDeps,
        *,
        left: Callable[[], None],
        policy: PermissionPolicy,
        make_way: Callable[[], None],
    ) -> None:
        self._id = session_id
        self._owner = owner
        self._deps = deps
        self._policy = policy
        self._make_way = make_way
        self._left = left
        """Called when the process of the seat has ended or is to be replaced."""
        self._memory: SessionMemory | None = None
        self._watching: asyncio.Task[None] | None = None
        self._lost_tools = False
        """Whether a seat was left because its agent lost its tools, and no turn has reported it yet."""
        self.seat: SessionSeat | None = None

    @property
    def known(self) -> Known | None:
        """What the agent knows that would be prompted: the one of the seat, or one that loads its session again."""
        if self.seat is not None:
            return self.seat.known
        return None if self._memory is None else self._memory.known

    async def attach(self, turn: Turn, kit: Offer, context: object, *, current: bool) -> SessionSeat:
        """Return a seat for this turn with these tools: the present one or a new one. `current`: all that `known` names
        is still in the transcript."""
        ask, deps, timings = turn.ask, self._deps, turn.timings
        tools = tuple(kit.definitions)
        stays = self.seat if current and self.seat is not None and self.seat.serves(ask) else None
        if stays is not None and await self._equipped(stays, kit, context):
            timings.pooled = stays.lease.pooled
            return stays
        if self.seat is not None and self.seat.lease.lost is not None:
            log.warning("session %s lost its agent and is replayed to another one: %s", self._id, self.seat.lease.lost)
        if self.seat is not None and self.seat.lost_tools:
            self._memory = self.seat.memory()
        self.leave()
        memory, self._memory = self._memory, None
        if memory is not None and not (current and memory.serves(ask, tools)):
            memory = None
        wanted = ToolSet(tools) if tools else None
        lease = await self._lease(ask.key, wanted, None if memory is None else memory.memo)
        seat = self.seat = SessionSeat(lease, tools)
        if memory is not None and lease.restored:
            seat.known = memory.known
        timings.waited, timings.pooled, timings.warmth = lease.waited, lease.pooled, lease.warmth
        self._watching = deps.tasks.start(self._watch(seat), f"seat of {self._id}")
        return seat

    def tell_lost_tools(self) -> bool:
        """Whether this turn must report that an earlier seat lost its tools. True once for each loss."""
        lost, self._lost_tools = self._lost_tools, False
        return lost

    async def wait_lost(self) -> None:
        """Wait until the pool knows that the process under the seat has ended or that its tools are lost."""
        if self.seat is not None:
            await self.seat.lease.wait_moved()

    async def _lease(self, key: TransportKey, tools: ToolSet | None, resume: SessionMemo | None) -> Lease:
        loop, owner = asyncio.get_running_loop(), self._owner or self._id
        timer: asyncio.TimerHandle | None = None

        def press() -> None:
            nonlocal timer
            if timer is not None:
                self._make_way()
            timer = loop.call_later(PRESSING, press)

        press()
        try:
            return await self._deps.pool.lease(
                key, tools=tools, owner=owner, resume=resume, policy=self._policy, process_owner=self._owner
            )
        finally:
            if timer is not None:
                timer.cancel()

    async def _equipped(self, seat: SessionSeat, kit: Offer, context: object) -> bool:
        """Whether the agent there has these tools, after telling it if it accepts changes."""
        if seat.tools == tuple(kit.definitions):
            return True
        news = self._deps.providers[seat.lease.key.provider].tool_news
        return news is ToolNews.AT_ONCE and await seat.retell(kit, context)

    def settle(self, turn: Turn, outcome: TurnOutcome, last: int | None) -> None:
        """The turn is over: keep the seat if its agent's memory matches the transcript. `last` is the id of the last
        stored message."""
        seat = self.seat
        if seat is None:
            return
        keeps = self._deps.providers[seat.lease.key.provider].keeps_cancelled_prompts
        agent_knows = outcome.status is TurnStatus.COMPLETED or (outcome.status is not TurnStatus.FAILED and keeps)
        same = agent_knows and turn.agent is not None and turn.ask.history is None
        known = Known(turn.asked - 1, frozenset(turn.own)) if turn.asked is not None else None
        seat.known = known if same and last else None
        if seat.known is None or seat.lease.move is not None or seat.lease.lost is not None:
            self.rest()

    def rest(self) -> None:
        """Release the seat, and keep what is needed to load its session again."""
        if self.seat is not None:
            self._memory = self.seat.memory()
            self.leave()

    def leave(self) -> None:
        """Release the seat without keeping anything of it."""
        if self.seat is not None:
            if self.seat.lost_tools:
                self._lost_tools = True
                log.warning("session %s lost its tools; its next turn takes another seat", self._id)
            self.seat.release()
            self.seat = None
        if self._watching is not None:
            # Nothing wakes this task any more: it would keep the lease, and the agent's session with it, until the
            # process ends.
            self._watching.cancel()
            self._watching = None

    def forget(self) -> None:
        """Release the seat and drop everything that is remembered of it."""
        self.leave()
        self._memory, self._lost_tools = None, False

    @property
    def remembers(self) -> bool:
        """Whether there is a session that an agent could load again, or a loss to report in the next turn."""
        return self._memory is not None or self._lost_tools

    async def _watch(self, seat: SessionSeat) -> None:
        await seat.lease.wait_moved()
        if self.seat is seat:
            self._left()
