"""One turn: what was asked, who writes the answer down, and how it is stopped.

Rules:
- `stop` may be called at any moment from the queue to the end, and any number of times: the first reason counts.
- An answer is what one request gets. A turn that hands function calls to its client has several of them; `next` is
  where the request with the results comes in.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ostler.gateway.model.ask import Ask, CallOutput
from ostler.gateway.model.correlation import ORIGIN, RequestOrigin
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.model.records import TakenBack
from ostler.gateway.turns.answer_sink import AnswerSink, DiscardingSink
from ostler.gateway.turns.pending_calls import ALWAYS, GRANTED, REFUSED, PendingCalls, Permission
from ostler.gateway.turns.timings import TurnTimings
from ostler.pool.agent.turn import AgentTurn, weigh
from ostler.pool.events import HostEvent, MessageDropped, PermissionAsked, Plan, Text, Thought, ToolStarted, TurnEvent

STREAMS = frozenset({Text, Thought})
ITEMS = STREAMS | {ToolStarted, Plan, PermissionAsked, MessageDropped}
"""Events that begin an item; of those that stream, the first of a row."""
EVENT = 256
"""Bytes that an event is kept in besides its text: its frame, its piece."""
COPIES = 4
"""Times a text is held when its answer ends: its pieces, its item, what is stored, what is sent."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The request that brings the results of function calls."""

    scribe: AnswerSink
    outputs: Sequence[CallOutput]


@dataclass(eq=False)
class Turn:
    """Made by a face, run by its session."""

    id: str
    ask: Ask
    sink: AnswerSink
    timings: TurnTimings
    said: list[str] = field(default_factory=list)
    """Pieces of the present answer."""
    answered: list[str] = field(default_factory=list)
    """The texts of the answers that are over."""
    size: int = 0
    """About what the present answer takes in memory."""
    items: int = 0
    """About how many output items the present answer has: each takes a hundred times what a piece of text takes."""
    left_out: int = 0
    """Lines of the conversation that its agent could not be told."""
    asked: int | None = None
    """The id of the user's message, once it is stored."""
    own: set[int] = field(default_factory=set)
    """The ids of all messages that are stored of it."""
    resumed: str | None = None
    """The id of the present answer, where it is not the first one."""
    receipt: bool = False
    """Whether its client was told that it will be answered, and waits for nothing."""
    undo: TakenBack | None = None
    """What is to be taken back where its agent is never asked."""
    pending_calls: PendingCalls | None = None
    agent: AgentTurn | None = None
    streams: type[TurnEvent] | None = None
    """Text or thought, where the last item is one that grows."""
    stopped: StopCause | None = None
    scope: asyncio.Timeout | None = None
    """What a stop ends while there is no agent to be told."""
    next: "asyncio.Future[Continuation | None] | None" = None
    """Set while the client has function calls to execute."""
    left_open: bool = False
    """Whether the gateway's end left its calls to be answered after the next start. What the agent says of that is no
    part of the conversation."""
    leave: Callable[[], None] | None = None
    """Set while it stands in the queue: takes it out and ends it."""
    answering: bool = False
    """Whether the agent has said, thought or called anything."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    origin: RequestOrigin = field(default_factory=ORIGIN.get)
    """The request that caused it."""

    @property
    def answer_id(self) -> str:
        """The id of the present answer: its stored messages have it, and other requests go on from it."""
        return self.resumed or self.id

    @property
    def text(self) -> str:
        """The present answer so far."""
        return "".join(self.said)

    @property
    def whole(self) -> str:
        """All that was answered."""
        return "\n".join(text for text in self.answered if text.strip())

    @property
    def parked(self) -> bool:
        """Whether it waits for its client."""
        return self.next is not None and not self.next.done()

    def pending_permissions(self) -> list[Permission]:
        """What the agent asked and nobody has answered, the oldest first."""
        return [] if self.pending_calls is None else self.pending_calls.permissions

    def answer_permission(self, permission_id: str, *, allow: bool, always: bool = False) -> bool:
        """Decide. False for a question that does not wait (any more). `always`: a yes for the whole session.

        Where it was handed to an API client and somebody else answers, the turn goes on with nobody listening.
        """
        desk = self.pending_calls
        if desk is None or permission_id not in {each.id for each in desk.permissions}:
            return False
        desk.answer(permission_id, REFUSED if not allow else ALWAYS if always else GRANTED)
        if self.next is not None and not self.next.done() and not desk.waiting:
            self.next.set_result(Continuation(DiscardingSink(), ()))
        return True

    def take(self, event: TurnEvent) -> None:
        """One event of the agent."""
        kind = type(event)
        self.size += EVENT
        if not self.answering:
            self.answering = kind is ToolStarted or (kind in (Text, Thought) and not event.text.isspace())  # type: ignore[union-attr] # narrowed by kind
        if kind is Text:
            if self.timings.spoke is None:
                self.timings.speak()
            self.said.append(event.text)  # type: ignore[union-attr] # narrowed by kind
            self.size += COPIES * len(event.text)  # type: ignore[union-attr] # narrowed by kind
        elif kind is Thought:
            self.size += COPIES * len(event.text)  # type: ignore[union-attr] # narrowed by kind
        elif kind is ToolStarted:
            self.timings.tool_called()
            self.size += weigh(event)
        if kind in ITEMS and kind is not self.streams:
            self.items += 1
            self.streams = kind if kind in STREAMS else None
        self.sink.take(event)

    def put(self, event: HostEvent) -> None:
        """Something of our own, in its place among the agent's events."""
        if self.agent is not None:
            self.agent.put(event)

    def ride(self, agent: AgentTurn) -> None:
        """The prompt has left; a stop that came meanwhile is passed on."""
        self.agent = agent
        if self.stopped is not None:
            agent.cancel()

    def stop(self, reason: StopCause) -> None:
        """Ask for the end. What becomes of it is the turn's outcome."""
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
