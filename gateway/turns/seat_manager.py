"""Where a session sits: its own seat while the agent there knows what was said, else a fresh one that is told.

Rules:
- A seat is kept after a turn only if its agent's memory and the transcript are the same.
- A seat whose process is to be replaced, or whose agent can reach the tools no more, is left at once by an idle
  session, at the end of its turn by a busy one. Tools that were lost are told of once, in the next turn.
- While the pool has none to give, sessions between their turns are asked for theirs.
- What is remembered of a seat given back lets its agent load the session again, if nothing was said elsewhere since.
"""

import asyncio
import logging
from collections.abc import Callable

from ostler.bridge.offer import Offer
from ostler.gateway.model.continuity import Known
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.turns.deps import SessionDeps
from ostler.gateway.turns.seat import SessionMemory, SessionSeat
from ostler.gateway.turns.turn import Turn
from ostler.pool.keys import TransportKey
from ostler.pool.lease import Lease
from ostler.pool.order import SessionMemo
from ostler.pool.ports import PermissionPolicy, ToolSet
from ostler.pool.provider import ToolNews

log = logging.getLogger(__name__)

PRESSING = 0.05
"""Seconds between looks at whether somebody could make way."""


class SeatManager:
    """Of one session."""

    def __init__(
        self,
        session_id: str,
        owner: str,
        house: SessionDeps,
        *,
        left: Callable[[], None],
        policy: PermissionPolicy,
        make_way: Callable[[], None],
    ) -> None:
        self._id = session_id
        self._owner = owner
        self._house = house
        self._policy = policy
        self._make_way = make_way
        self._left = left
        """Called when the process under the seat is gone or to be replaced."""
        self._memory: SessionMemory | None = None
        self._watching: asyncio.Task[None] | None = None
        self._lost_tools = False
        """Whether a seat was left because its agent could reach the tools no more, and no turn has told of it yet."""
        self.seat: SessionSeat | None = None

    @property
    def known(self) -> Known | None:
        """What the agent knows that would be asked: the one of the seat, or one that loads its session again."""
        if self.seat is not None:
            return self.seat.known
        return None if self._memory is None else self._memory.known

    async def attach(self, turn: Turn, kit: Offer, context: object, *, current: bool) -> SessionSeat:
        """A seat for this turn, with these tools. `current`: what `known` says is all in the transcript still."""
        ask, house, timings = turn.ask, self._house, turn.timings
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
        self._watching = house.crew.start(self._watch(seat), f"seat of {self._id}")
        return seat

    def tell_lost_tools(self) -> bool:
        """Whether the present turn must tell that a seat before this one had lost its tools. True once."""
        told, self._lost_tools = self._lost_tools, False
        return told

    async def wait_lost(self) -> None:
        """The process under the seat has ended, or its tools are lost: returns when the pool knows it too."""
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
            return await self._house.pool.lease(
                key, tools=tools, owner=owner, resume=resume, policy=self._policy, process_owner=self._owner
            )
        finally:
            if timer is not None:
                timer.cancel()

    async def _equipped(self, seat: SessionSeat, kit: Offer, context: object) -> bool:
        """Whether the agent there has these tools, now that it was told where it can be."""
        if seat.tools == tuple(kit.definitions):
            return True
        news = self._house.providers[seat.lease.key.provider].tool_news
        return news is ToolNews.AT_ONCE and await seat.retell(kit, context)

    def settle(self, turn: Turn, outcome: TurnOutcome, last: int | None) -> None:
        """The turn is over: keep the seat if it is still good. `last` is the id of what was stored last."""
        seat = self.seat
        if seat is None:
            return
        keeps = self._house.providers[seat.lease.key.provider].keeps_cancelled_prompts
        heard = outcome.status is TurnStatus.COMPLETED or (outcome.status is not TurnStatus.FAILED and keeps)
        same = heard and turn.agent is not None and turn.ask.history is None
        known = Known(turn.asked - 1, frozenset(turn.own)) if turn.asked is not None else None
        seat.known = known if same and last else None
        if seat.known is None or seat.lease.move is not None or seat.lease.lost is not None:
            self.rest()

    def rest(self) -> None:
        """Give the seat back, and remember it."""
        if self.seat is not None:
            self._memory = self.seat.memory()
            self.leave()

    def leave(self) -> None:
        """Give the seat back."""
        if self.seat is not None:
            if self.seat.lost_tools:
                self._lost_tools = True
                log.warning("session %s lost its tools; its next turn takes another seat", self._id)
            self.seat.release()
            self.seat = None
        if self._watching is not None:
            # Nothing wakes it any more: it would keep the lease, and the agent's session with it, for ever.
            self._watching.cancel()
            self._watching = None

    def forget(self) -> None:
        """Give the seat back for good."""
        self.leave()
        self._memory, self._lost_tools = None, False

    @property
    def remembers(self) -> bool:
        """Whether there is a session that an agent could load again, or something to tell in the next turn."""
        return self._memory is not None or self._lost_tools

    async def _watch(self, seat: SessionSeat) -> None:
        await seat.lease.wait_moved()
        if self.seat is seat:
            self._left()
