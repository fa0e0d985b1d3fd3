"""A session's seat in an agent process, and what that agent knows of the conversation.

Rules:
- `known` is the part of the stored transcript that the agent has seen. The rest is told with the next prompt. If an
  agent knows something that is not in the transcript, its seat gets no more prompts: the session takes a new seat and
  replays.
- Changed tools are announced to an agent that accepts such news at any time, and its prompt waits until it has read
  them. A seat of any other agent, or of one that does not read them in time, is not used again: its next prompt would
  have the old tools.
- A used seat is never given to another session; releasing it closes the agent's session.
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
