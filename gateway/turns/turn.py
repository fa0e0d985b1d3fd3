"""One turn: its question, its answer, and how it is stopped.

Rules:
- `stop` may be called at any moment from the queue to the end, and any number of times: the first reason counts.
- An answer is what one request gets. A turn that hands function calls to its client has several answers; the request
  with the results arrives by `next`.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ostler.gateway.model.ask import Ask, CallOutput
from ostler.gateway.model.correlation import ORIGIN, RequestOrigin
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.model.records import TakenBack
from ostler.gateway.turns.answer import AnswerStream
from ostler.gateway.turns.pending_calls import ALWAYS, GRANTED, REFUSED, PendingCalls, Permission
from ostler.gateway.turns.timings import TurnTimings
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.events import HostEvent, Text, Thought, ToolStarted, TurnEvent


@dataclass(frozen=True, slots=True)
class Continuation:
    """The request that brings the results of function calls."""

    answer: AnswerStream
    outputs: Sequence[CallOutput]


@dataclass(eq=False)
class Turn:
    """A turn: a surface creates it, and its session runs it."""

    id: str
    ask: Ask
    answer: AnswerStream
    """The answer that is being written now."""
    timings: TurnTimings
    answered: list[str] = field(default_factory=list)
    """The texts of the earlier answers of this turn."""
    left_out: int = 0
    """Lines of the conversation that did not fit the prompt."""
    asked: int | None = None
    """The id of the user's message, once it is stored."""
    own: set[int] = field(default_factory=set)
    """The ids of all stored messages of this turn."""
    resumed: str | None = None
    """The id of the present answer, if it is not the first one."""
    receipt: bool = False
    """Whether its client was told that it will be answered, and does not wait on a connection."""
    undo: TakenBack | None = None
    """What to take back if its agent is never prompted."""
    pending_calls: PendingCalls | None = None
    agent: AgentTurn | None = None
    stopped: StopCause | None = None
    scope: asyncio.Timeout | None = None
    """The timeout that a stop triggers while there is no agent to cancel."""
    next: "asyncio.Future[Continuation | None] | None" = None
    """Set while the client has function calls to execute."""
    left_open: bool = False
    """Whether the gateway's shutdown left its calls open until after the next start. The agent's reaction to that is
    not part of the conversation."""
    leave: Callable[[], None] | None = None
    """Set while the turn waits in the queue: removes it from the queue and ends it."""
    answering: bool = False
    """Whether the agent has sent a text, a thought or a tool call."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    origin: RequestOrigin = field(default_factory=ORIGIN.get)
    """The request that caused this turn."""

    @property
    def answer_id(self) -> str:
        """The id of the present answer. Its stored messages have this id, and later requests continue from it."""
        return self.resumed or self.id

    @property
    def whole(self) -> str:
        """The text of all ended answers."""
        return "\n".join(text for text in self.answered if text.strip())

    @property
    def parked(self) -> bool:
        """Whether the turn waits for its client to execute calls."""
        return self.next is not None and not self.next.done()

    def pending_permissions(self) -> list[Permission]:
        """Permission requests that wait for an answer, the oldest first."""
        return [] if self.pending_calls is None else self.pending_calls.permissions

    def answer_permission(self, permission_id: str, *, allow: bool, always: bool = False) -> bool:
        """Answer a permission request. False if it does not wait any more. `always`: a yes for the whole session.

        If the request was handed to an API client and another caller answers it, the turn goes on without a client.
        """
        pending = self.pending_calls
        if pending is None or permission_id not in {each.id for each in pending.permissions}:
            return False
        pending.answer(permission_id, REFUSED if not allow else ALWAYS if always else GRANTED)
        if self.next is not None and not self.next.done() and not pending.waiting:
            self.next.set_result(Continuation(AnswerStream(self.answer_id), ()))
        return True

    def take(self, event: TurnEvent) -> None:
        """Add one event of the agent to the answer."""
        kind = type(event)
        if not self.answering:
            self.answering = kind is ToolStarted or (kind in (Text, Thought) and not event.text.isspace())  # type: ignore[union-attr] # narrowed by kind
        if kind is Text:
            if self.timings.spoke is None:
                self.timings.speak()
        elif kind is ToolStarted:
            self.timings.tool_called()
        self.answer.take(event)

    def put(self, event: HostEvent) -> None:
        """Put an event of the gateway in its place among the agent's events."""
        if self.agent is not None:
            self.agent.put(event)

    def ride(self, agent: AgentTurn) -> None:
        """The prompt was sent; pass on a stop that came in the meantime."""
        self.agent = agent
        if self.stopped is not None:
            agent.cancel()

    def stop(self, reason: StopCause) -> None:
        """Ask the turn to end. How it ends is its outcome."""
        if self.stopped is not None or self.over.is_set():
            return
        self.stopped = reason
        if self.next is not None and not self.next.done():
            self.next.set_result(None)
        if self.leave is not None:
            self.leave()
        elif self.agent is not None:
            self.agent.cancel()
        elif self.scope is not None:
            self.scope.reschedule(asyncio.get_running_loop().time())
