"""A session's place in an agent process, and what that agent knows of the conversation.

Rules:
- `knows` is the id of the last stored message that the agent has seen. A seat whose agent knows less, or other things,
  than the transcript says gets no further prompt: the session takes a fresh one and replays.
- A seat that was opened with other tools serves no more: nothing tells us when an agent has read a changed list, and a
  prompt that overtakes it would be answered with the old tools.
- A seat that was ever used is never given to another session; releasing it closes the agent's session.
"""

from dataclasses import dataclass

from ostler.bridge.calls import Dispatcher
from ostler.bridge.session_binding import SessionBinding
from ostler.gateway.sessions.ask import Ask
from ostler.pool.lease import Lease
from ostler.pool.order import SessionMemo
from ostler.wire.json import JsonObject

NOTHING = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """What remains of a seat that was given back: enough to ask an agent to load the session again."""

    memo: SessionMemo
    knows: int
    provider: str
    tools: tuple[JsonObject, ...]

    def serves(self, ask: Ask, last: int) -> bool:
        """Whether the loaded session would know what was said, and have the right tools."""
        return (
            self.knows == last and ask.history is None and self.provider == ask.key.provider and self.tools == ask.tools
        )


@dataclass(eq=False)
class Seat:
    """A lease in use by one session."""

    lease: Lease
    tools: tuple[JsonObject, ...] = ()
    knows: int = NOTHING
    instructions: str | None = None
    """Those the agent was told."""

    def serves(self, ask: Ask, last: int) -> bool:
        """Whether the next prompt of this conversation may go here."""
        lease = self.lease
        if lease.lost is not None or lease.move is not None or lease.session.sealed is not None:
            return False
        return self.knows == last and lease.key == ask.key and ask.history is None and self.tools == ask.tools

    def offer(self, dispatcher: Dispatcher) -> None:
        """Whoever calls a tool from now on reaches this dispatcher."""
        ticket = self.lease.ticket
        if ticket is None:
            return
        # The pool knows the ticket by its protocol only; the bridge behind it was introduced by `app.py`.
        if not isinstance(ticket, SessionBinding):
            raise TypeError(f"the pool was given a tool port that is no bridge: {type(ticket).__name__}")
        ticket.publish(self.tools, dispatcher)

    def memory(self) -> Memory | None:
        """What to keep when it is given back."""
        if self.knows <= NOTHING:
            return None
        return Memory(self.lease.session.memo, self.knows, self.lease.key.provider, self.tools)

    def release(self) -> None:
        """Give it back. Idempotent."""
        self.lease.release()
