"""A session's place in an agent process, and what that agent knows of the conversation.

Rules:
- `known` is what of the stored transcript the agent has seen. What it does not know yet is told with the next prompt. A
  seat whose agent knows what the transcript does not say gets none: the session takes a fresh one and replays.
- Tools that changed are told to an agent that takes such news at once, and its prompt waits until it has read them. A
  seat of any other agent, or one that does not ask in time, serves no more: its next prompt would have the old tools.
- A seat that was ever used is never given to another session; releasing it closes the agent's session.
"""

import asyncio
from dataclasses import dataclass

from ostler.bridge.errors import BindingRevoked
from ostler.bridge.offer import Offer
from ostler.bridge.session_binding import SessionBinding
from ostler.gateway.model.ask import Ask
from ostler.gateway.model.continuity import Known
from ostler.gateway.model.errors import SeatLost
from ostler.pool.core.values import RetireReason
from ostler.pool.lease import Lease
from ostler.pool.order import SessionMemo
from ostler.wire.json import JsonObject

TOLD = 5.0
"""Seconds that an agent has to read a list of tools that changed."""


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """What remains of a seat that was given back: enough to ask an agent to load the session again."""

    memo: SessionMemo
    known: Known
    provider: str
    tools: tuple[JsonObject, ...]

    def serves(self, ask: Ask, tools: tuple[JsonObject, ...]) -> bool:
        """Whether the loaded session would have the right tools."""
        return self.provider == ask.key.provider and self.tools == tools


@dataclass(eq=False)
class SessionSeat:
    """A lease in use by one session."""

    lease: Lease
    tools: tuple[JsonObject, ...] = ()
    known: Known | None = None
    """None: nothing yet, or more than the transcript says."""
    instructions: str | None = None
    """Those the agent was told."""

    def serves(self, ask: Ask) -> bool:
        """Whether the next prompt may go here, as far as its agent knows the right things."""
        lease = self.lease
        if lease.lost is not None or lease.move is not None or lease.session.sealed is not None:
            return False
        return lease.key == ask.key

    def offer(self, kit: Offer, context: object) -> None:
        """Calls that begin from now on reach this dispatcher. Raises `SeatLost` where the seat has lost its agent, or
        the agent its tools."""
        binding = self._binding
        if binding is None:
            return
        self.tools = tuple(kit.definitions)
        try:
            binding.publish(self.tools, kit.dispatcher, context)
        except BindingRevoked as revoked:
            # A relay may be missed before its agent is, with which it ended.
            raise SeatLost(str(self.lease.lost or self.lease.move or revoked)) from revoked

    async def retell(self, kit: Offer, context: object) -> bool:
        """Let an agent that takes news at once read other tools. False where it did not."""
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
        """Whether its agent lives and can reach the tools no more."""
        return self.lease.move == RetireReason.TOOLS_LOST.value and self.lease.lost is None

    @property
    def _binding(self) -> SessionBinding | None:
        ticket = self.lease.ticket
        if ticket is None:
            return None
        # The pool knows the ticket by its protocol only; the bridge behind it was introduced by `app.py`.
        if not isinstance(ticket, SessionBinding):
            raise TypeError(f"the pool was given a tool port that is no bridge: {type(ticket).__name__}")
        return ticket

    def memory(self) -> SessionMemory | None:
        """What to keep when it is given back."""
        if self.known is None:
            return None
        return SessionMemory(self.lease.session.memo, self.known, self.lease.key.provider, self.tools)

    def release(self) -> None:
        """Give it back. Idempotent."""
        self.lease.release()
