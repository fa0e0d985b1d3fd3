"""What becomes of a conversation while several things happen to it at once. Pure: decides over values, touches nothing.

Everything that reads the state of a conversation, waits, and then writes it comes here for its decision, with what is
true at the moment of writing: on the event loop without a wait in between, or inside the store's transaction.

Rules:
- A name leads where its last mover led it. The end of a turn is no mover: it updates a name that leads to its session.
- A response is continued in its own session by the first request that goes on from it; any other request is a fork.
- An agent is told each message of the transcript before its question, once.
- A question stays in the transcript if an agent was told it, or if its client holds a receipt for it.
- A function call is answered once; a result whose turn is taken back was not an answer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ostler.gateway.model.records import ParkState

# --- names ---


@dataclass(frozen=True, slots=True)
class ConversationName:
    """The row of a conversation's name."""

    session_id: str | None
    """None in rows of an early version that did not keep it."""


def turn_updates(name: ConversationName | None, session_id: str) -> bool:
    """Whether the end of a turn of this session may note its response under the name."""
    return name is not None and name.session_id in (None, session_id)


def command_moves(name: ConversationName | None, left: str | None) -> bool:
    """Whether a command that found the name at `left` (None: it was not there) may lead it elsewhere."""
    if name is None:
        return left is None
    return name.session_id in (None, left)


# --- going on from a response ---


class Way(Enum):
    """Where a request that names an earlier response runs."""

    GO_ON = auto()
    """In the session of that response."""
    FORK = auto()
    """In a session of its own, with the conversation as it was then."""
    WAIT = auto()
    """Nowhere yet: the response is still being made, and another request goes on from it."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What stands before a request in a session, at this moment."""

    busy: bool = False
    """A turn runs or waits, or the session is held for somebody."""
    last: str | None = None
    """The id of the answer that the last turn in the queue writes; None where the session is held, or nothing runs."""


def joins(after: str, queue: Queue) -> bool:
    """Whether a request may stand in the queue at all: nothing is in it, or it ends with the response it names."""
    return not queue.busy or queue.last == after


def cut(answers: Sequence[str | None], after: str, *, begins: bool, running: Collection[str] = ()) -> int:
    """How many messages of a transcript were there when a response ended. `answers`: the response of each message.

    A response that left none has nothing before it where it `begins` its session; else nobody knows better than all,
    but for what a `running` turn has stored: its agent may never be asked.
    """
    places = [place for place, answer in enumerate(answers) if answer == after]
    if places:
        return places[-1] + 1
    if begins:
        return 0
    return next((place for place, answer in enumerate(answers) if answer in running), len(answers))


def way_on(size: int, total: int, *, joined: bool, finished: bool, waits: bool) -> Way:
    """Where a request goes that names an earlier response, which was there with `size` of `total` messages.

    `joined`: it stands in the queue, so nothing begins before it. `finished`: the response is not made any more.
    `waits`: it handed out calls that its client has not answered, so the client knows of nothing since.
    """
    if joined:
        return Way.GO_ON if size == total or waits or not finished else Way.FORK
    return Way.FORK if finished else Way.WAIT


# --- what an agent knows ---


@dataclass(frozen=True, slots=True)
class Known:
    """What an agent knows of a transcript: all of it up to a message, and its own turn."""

    through: int
    own: frozenset[int]

    def untold(self, tail: Sequence[int]) -> tuple[int, ...] | None:
        """Of the messages behind `through` those it has not heard; None where it knows what is no longer said."""
        return tuple(each for each in tail if each not in self.own) if self.own.issubset(tail) else None


# --- questions ---


def stays(*, told: bool, receipt: bool, drained: bool) -> bool:
    """Whether a question is part of the conversation when its turn is over.

    `told`: the prompt left for the agent. `receipt`: the client was told that it would be answered, and has gone.
    `drained`: it was the gateway's end that stopped it, and nobody who could know of it.
    """
    return told or (receipt and drained)


# --- results ---


def answered_before(states: Mapping[str, str]) -> list[str]:
    """Those of these calls that have an answer; while there is one, none of the results is taken."""
    return [call_id for call_id, state in states.items() if state == ParkState.ANSWERED]
