"""Decides how a conversation continues when several things happen to it at once. Pure: values in, values out.

Code that reads the state of a conversation, waits, and then writes it gets its decision here from what is true at the
moment of writing: on the event loop without an `await` in between, or inside the store's transaction.

Rules:
- A name leads to where it was moved last. The end of a turn moves no name: it only updates a name that leads to its
  session.
- A response is continued in its own session by the first request that names it; any other such request is a fork.
- An agent is told each message of the transcript before its question, once.
- A question stays in the transcript if an agent was told it, or if its client has a receipt for it.
- A function call is answered once; a result whose turn is taken back does not count as an answer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ostler.gateway.model.records import ParkState

# --- names ---


@dataclass(frozen=True, slots=True)
class ConversationName:
    """The stored row of a conversation's name."""

    session_id: str | None
    """None in rows of an early version that did not store it."""


def turn_updates(name: ConversationName | None, session_id: str) -> bool:
    """Whether the end of a turn of this session may record its response under the name."""
    return name is not None and name.session_id in (None, session_id)


def command_moves(name: ConversationName | None, left: str | None) -> bool:
    """Whether a command that found the name at `left` (None: the name did not exist) may move it elsewhere."""
    if name is None:
        return left is None
    return name.session_id in (None, left)


# --- going on from a response ---


class Way(Enum):
    """Where a request that names an earlier response runs."""

    GO_ON = auto()
    """In the session of that response."""
    FORK = auto()
    """In a new session, with the conversation as it was at that response."""
    WAIT = auto()
    """Nowhere yet: the response is still being written, and another request already continues from it."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What is before a request in a session's queue, at this moment."""

    busy: bool = False
    """Whether a turn runs or waits, or a caller holds the session."""
    last: str | None = None
    """The id of the answer that the last turn in the queue writes; None if the session is held, or no turn is
    queued."""


def joins(after: str, queue: Queue) -> bool:
    """Whether a request may join the queue: it is empty, or it ends with the response that the request names."""
    return not queue.busy or queue.last == after


def cut(answers: Sequence[str | None], after: str, *, begins: bool, running: Collection[str] = ()) -> int:
    """Return how many messages the transcript had when a response ended. `answers` has the response id of each message.

    A response without messages of its own has nothing before it if it `begins` its session. Otherwise its place is
    unknown, so all messages count, up to the first that a `running` turn has stored: that turn's agent may never be
    prompted.
    """
    places = [place for place, answer in enumerate(answers) if answer == after]
    if places:
        return places[-1] + 1
    if begins:
        return 0
    return next((place for place, answer in enumerate(answers) if answer in running), len(answers))


def way_on(size: int, total: int, *, joined: bool, finished: bool, waits: bool) -> Way:
    """Return where a request goes that names an earlier response, which ended when `size` of `total` messages were
    there.

    `joined`: the request has its place in the queue, so nothing can begin before it. `finished`: the response is
    complete. `waits`: the response handed out calls that its client has not answered, so the client knows nothing that
    came later.
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
        """Return the messages behind `through` that the agent has not seen; None if it knows one that has left the
        transcript."""
        return tuple(each for each in tail if each not in self.own) if self.own.issubset(tail) else None


# --- questions ---


def stays(*, told: bool, receipt: bool, drained: bool) -> bool:
    """Whether a question remains in the transcript after its turn.

    `told`: the prompt was sent to the agent. `receipt`: the client disconnected after it was told that the question
    would be answered. `drained`: the shutdown of the gateway stopped the turn; the client could not know of that.
    """
    return told or (receipt and drained)


# --- results ---


def answered_before(states: Mapping[str, str]) -> list[str]:
    """Return the calls that have an answer already. If there is one, none of the request's results is accepted."""
    return [call_id for call_id, state in states.items() if state == ParkState.ANSWERED]
