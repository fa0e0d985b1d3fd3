"""What the store keeps, as plain frozen values.

Rules:
- A record is what was read; it never changes and knows no database. A `New...` is what is to be written.
- Messages are ordered by `id`, never by a clock: clocks step back, and two messages may share a moment.
- Times are seconds since the epoch, for people; no order and no identity is ever taken from them.
- A title stands for a lineage: "P", "P #2", "P #3" are one conversation continued.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ostler.gateway.model.errors import BadSessionId, BadTitle
from ostler.wire.json import JsonObject

TITLE_LIMIT = 100
UNSTORED = "store"
"""In the metadata of a session: false where its client asked that nothing be stored."""
HELD_INSTRUCTIONS = "ostler_instructions"
"""In the body of a stored response: the instructions that held for it. Taken out before anybody sees it."""
SESSION_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
CONTINUATION = re.compile(r"(.+) #([1-9][0-9]{0,8})")


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"
    """Said by the gateway itself: a summary, or that context was lost."""


class EndReason(StrEnum):
    """Why a session ended. Other words are kept as they are."""

    RESET = "session_reset"
    IDLE = "idle"
    DAILY = "daily"
    SWITCH = "session_switch"
    COMPRESSION = "compression"
    UNREACHABLE = "unreachable"
    """No key, conversation, response or child leads to it."""


EXPIRIES = frozenset({EndReason.IDLE, EndReason.DAILY})
"""Ends that no person has asked for."""


class SessionOrigin(StrEnum):
    """How a session with a parent came to be."""

    BRANCH = "branch"
    COMPRESSION = "compression"


class ParkState(StrEnum):
    WAITING = "waiting"
    ANSWERED = "answered"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to be made. For one that exists already, what is set here fills only what is not set there."""

    id: str
    key: str | None = None
    """The session key of its chat face, or None for the OpenAI API."""
    platform: str | None = None
    owner: str | None = None
    """The user (chat faces) or the name of the API key that it belongs to."""
    chat: str | None = None
    """The place of the platform it was held in."""
    parent_id: str | None = None
    origin: str | None = None
    model: str | None = None
    cwd: str | None = None
    instructions: str | None = None
    metadata: JsonObject | None = None
    created_at: float | None = None
    """None: now."""


@dataclass(frozen=True, slots=True)
class SessionChange:
    """What is to be different in a session; None leaves a thing as it is."""

    model: str | None = None
    cwd: str | None = None
    instructions: str | None = None
    metadata: JsonObject | None = None
    """Replaces the whole of it."""
    expiry_finalized: bool | None = None
    last_active_at: float | None = None
    """For a session that was brought in: what is stored of it now was said then."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    id: str
    key: str | None
    platform: str | None
    owner: str | None
    chat: str | None
    title: str | None
    parent_id: str | None
    origin: str | None
    model: str | None
    cwd: str | None
    instructions: str | None
    metadata: JsonObject
    created_at: float
    last_active_at: float
    ended_at: float | None
    end_reason: str | None
    expiry_finalized: bool
    message_count: int
    """Its active messages."""

    @property
    def live(self) -> bool:
        return self.ended_at is None


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions to list: every fact that is not None must match."""

    platform: str | None = None
    owner: str | None = None
    chat: str | None = None
    titled: bool | None = None
    live: bool | None = None
    key: str | None = None
    """As it is stored."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be stored: its content items, and the text of it that a search should find."""

    role: str
    items: Sequence[JsonObject]
    text: str = ""
    response_id: str | None = None
    created_at: float | None = None
    """None: now."""


@dataclass(frozen=True, slots=True)
class MessageRecord:
    id: int
    session_id: str
    role: str
    items: tuple[JsonObject, ...]
    text: str
    response_id: str | None
    created_at: float
    active: bool
    """In the transcript."""
    compacted: bool
    """Out of the transcript because a summary stands for it; a search still finds it."""

    def again(self) -> NewMessage:
        """The same message, to be stored once more."""
        return NewMessage(self.role, self.items, self.text, self.response_id, self.created_at)


@dataclass(frozen=True, slots=True)
class MessageCounts:
    active: int
    users: int
    """Active messages of the user: the turns that `/undo` can take back."""
    compacted: int
    undone: int


@dataclass(frozen=True, slots=True)
class RoutingRecord:
    """Where a session key leads."""

    key: str
    session_id: str
    platform: str | None
    updated_at: float


@dataclass(frozen=True, slots=True)
class RouteSwitch:
    """A session key that is to lead to another session."""

    key: str
    leaving: str | None
    """The session it is believed to lead to, None for none: where that is wrong, nothing is done."""
    target: NewSession | str
    """A session to be made; or the id of one that is there, which lives again."""
    reason: str | None = None
    """Why the session that is left ends; None: it goes on, or has ended before. It must be alive: of two who end a
    session one does, and the other one learns that the key has moved."""
    finalizes: bool = False
    """Whether the end is that of an expiry, which needs no further work."""
    platform: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """A slug of the OpenAI API. Slugs of different owners are different conversations."""

    slug: str
    owner: str
    session_id: str | None
    """None in rows of an early version that did not keep it."""
    response_id: str | None
    """The latest response, which may be evicted or deleted by now."""
    metadata: JsonObject
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    id: str
    session_id: str
    owner: str
    """The name of the API key; "" where there is none."""
    status: str
    body: JsonObject
    """The response resource."""
    input_items: tuple[JsonObject, ...] = ()
    previous_response_id: str | None = None
    slug: str | None = None
    created_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ParkedCall:
    """A function call of an agent that an API client is to execute."""

    call_id: str
    session_id: str
    response_id: str | None
    name: str
    arguments: str
    deadline: float
    created_at: float
    state: str = ParkState.WAITING
    output: object = None
    """What the client said, as JSON: a text or a list of parts."""


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """An answer that a repeated request gets again."""

    key: str
    owner: str
    fingerprint: str
    """A digest of the request: the same key with another one is a mistake of the client."""
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    expires_at: float


@dataclass(frozen=True, slots=True)
class TurnBegin:
    """All that the beginning of a turn, or of a further answer of it, leaves behind: stored whole or not at all."""

    session_id: str
    messages: Sequence[NewMessage] = ()
    response: ResponseRecord | None = None
    answers: Mapping[str, object] = field(default_factory=dict)
    """Results of function calls, by call id, as JSON."""
    instructions: str | None = None
    """Those that hold for the session from now on; None leaves them as they are."""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The beginning of a turn whose agent was never asked."""

    session_id: str
    messages: Sequence[int]
    """Ids. What others have stored behind them stays."""
    calls: Sequence[str] = ()
    """Function calls that are open again."""
    instructions: str | None = None
    """Those that held before; None where they were not changed."""


@dataclass(frozen=True, slots=True)
class TurnCommit:
    """All that the end of a turn leaves behind: stored whole or not at all."""

    session_id: str
    messages: Sequence[NewMessage] = ()
    response: ResponseRecord | None = None
    slug: str | None = None
    """Point this slug of the response's owner (or of `owner`) at the response, where it still leads to the session."""
    owner: str = ""
    parked: Sequence[ParkedCall] = ()
    idempotency: IdempotencyRecord | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    session_id: str
    title: str | None
    message_id: int
    role: str
    snippet: str
    """The place of the text where the words are, words in [brackets]."""
    created_at: float


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """How the store stands, for a status page."""

    path: str
    engine: str
    journal_mode: str
    synchronous: str
    schema: int
    waiting_writes: int
    facts: JsonObject = field(default_factory=dict)


def new_session_id(random_bytes: Callable[[int], bytes]) -> str:
    """A fresh session id; the source of randomness is the caller's."""
    return f"sess_{random_bytes(16).hex()}"


def checked_session_id(session_id: str) -> str:
    """The id itself, or `BadSessionId`: an id names a file, so it cannot be a path."""
    if SESSION_ID.fullmatch(session_id) is None:
        raise BadSessionId(session_id)
    return session_id


def clean_title(text: str) -> str:
    """A title as it is kept: one line without control characters, trimmed, not too long, not empty."""
    printable = "".join(" " if char.isspace() else char for char in text if char.isprintable() or char.isspace())
    title = " ".join(printable.split())[:TITLE_LIMIT].rstrip()
    if not title:
        raise BadTitle("it is empty")
    return title


def split_title(title: str) -> tuple[str, int]:
    """The lineage of a title and its place in it: "P" is ("P", 1), "P #3" is ("P", 3)."""
    found = CONTINUATION.fullmatch(title)
    return (title, 1) if found is None else (found[1], int(found[2]))
