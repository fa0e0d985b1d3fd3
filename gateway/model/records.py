"""What the store keeps, as plain frozen values.

Rules:
- A record is what was read; it never changes and knows no database. A `New...` type is what is to be written.
- Messages are ordered by `id`, never by a clock: clocks step back, and two messages may have the same time.
- Times are seconds since the epoch, for people; code never orders or identifies by them.
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
"""Metadata key of a session: false if its client asked that nothing be stored."""
HELD_INSTRUCTIONS = "ostler_instructions"
"""Key in the body of a stored response: the instructions that applied to it. Removed before the body leaves the
gateway."""
SESSION_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
CONTINUATION = re.compile(r"(.+) #([1-9][0-9]{0,8})")


class Role(StrEnum):
    """Who said a message of the transcript."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"
    """Said by the gateway itself: a summary, or a note that context was lost."""


class EndReason(StrEnum):
    """Why a session ended. Reasons outside this list are stored as they are."""

    RESET = "session_reset"
    IDLE = "idle"
    DAILY = "daily"
    SWITCH = "session_switch"
    COMPRESSION = "compression"
    UNREACHABLE = "unreachable"
    """No key, conversation, response or child leads to the session."""


EXPIRIES = frozenset({EndReason.IDLE, EndReason.DAILY})
"""Reasons that no person asked for."""


class SessionOrigin(StrEnum):
    """How a session with a parent was created."""

    BRANCH = "branch"
    COMPRESSION = "compression"


class ParkState(StrEnum):
    """The state of a function call that an API client is to execute."""

    WAITING = "waiting"
    ANSWERED = "answered"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to create. If it exists, these values fill only the fields that are not set in it."""

    id: str
    key: str | None = None
    """The session key of its chat surface, or None for the OpenAI API."""
    platform: str | None = None
    owner: str | None = None
    """The user (chat surfaces) or the name of the API key that the session belongs to."""
    chat: str | None = None
    """The chat of the platform in which the session was held."""
    parent_id: str | None = None
    origin: str | None = None
    model: str | None = None
    cwd: str | None = None
    instructions: str | None = None
    metadata: JsonObject | None = None
    created_at: float | None = None
    """None means the present time."""


@dataclass(frozen=True, slots=True)
class SessionChange:
    """The fields of a session to change; None leaves a field as it is."""

    model: str | None = None
    cwd: str | None = None
    instructions: str | None = None
    metadata: JsonObject | None = None
    """Replaces all of the session's metadata."""
    expiry_finalized: bool | None = None
    last_active_at: float | None = None
    """For an imported session: its messages are stored now but were said at this time."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it is stored."""

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
    """The number of its active messages."""

    @property
    def live(self) -> bool:
        return self.ended_at is None


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions to list: every field that is not None must match."""

    platform: str | None = None
    owner: str | None = None
    chat: str | None = None
    titled: bool | None = None
    live: bool | None = None
    key: str | None = None
    """The session key as it is stored."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to store: its content items, and its text for search."""

    role: str
    items: Sequence[JsonObject]
    text: str = ""
    response_id: str | None = None
    created_at: float | None = None
    """None means the present time."""


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message as it is stored; inactive ones are kept too."""

    id: int
    session_id: str
    role: str
    items: tuple[JsonObject, ...]
    text: str
    response_id: str | None
    created_at: float
    active: bool
    """Whether the message is in the transcript."""
    compacted: bool
    """The message left the transcript because a summary replaces it; search still finds it."""

    def again(self) -> NewMessage:
        """Return the same message, to be stored again."""
        return NewMessage(self.role, self.items, self.text, self.response_id, self.created_at)


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """How many messages of a session are in each state."""

    active: int
    users: int
    """Active messages of the user: the turns that `/undo` can take back."""
    compacted: int
    undone: int


@dataclass(frozen=True, slots=True)
class RoutingRecord:
    """The session that a session key leads to."""

    key: str
    session_id: str
    platform: str | None
    updated_at: float


@dataclass(frozen=True, slots=True)
class RouteSwitch:
    """A session key that is to lead to another session."""

    key: str
    leaving: str | None
    """The session that the key is expected to lead to, None for none. If the key leads elsewhere, nothing is
    changed."""
    target: NewSession | str
    """A session to create, or the id of an existing one, which is reopened."""
    reason: str | None = None
    """The end reason for the session that is left. None: it continues, or has ended before. Otherwise it must be live:
    of two concurrent switches that end a session one succeeds, and the other learns that the key has moved."""
    finalizes: bool = False
    """Whether an expiry caused the end; then no further work follows from it."""
    platform: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """A conversation of the OpenAI API, named by its slug. Slugs of different owners are different conversations."""

    slug: str
    owner: str
    session_id: str | None
    """None in rows of an early version that did not store it."""
    response_id: str | None
    """The latest response, which may have been evicted or deleted."""
    metadata: JsonObject
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """A response of the OpenAI API as it is stored."""

    id: str
    session_id: str
    owner: str
    """The name of the API key; "" if there is none."""
    status: str
    body: JsonObject
    """The response resource of the API."""
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
    """The client's output as JSON: a text or a list of parts."""


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """An answer that a repeated request gets again."""

    key: str
    owner: str
    fingerprint: str
    """A digest of the request: the same key with another request is an error of the client."""
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    expires_at: float


@dataclass(frozen=True, slots=True)
class TurnBegin:
    """Everything that the beginning of a turn, or of a further answer of it, stores: all of it or nothing."""

    session_id: str
    messages: Sequence[NewMessage] = ()
    response: ResponseRecord | None = None
    answers: Mapping[str, object] = field(default_factory=dict)
    """Results of function calls, by call id, as JSON."""
    instructions: str | None = None
    """The instructions of the session from now on; None leaves them as they are."""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The beginning of a turn that is undone because its agent was never prompted."""

    session_id: str
    messages: Sequence[int]
    """Ids of the messages to undo. Messages that others stored after them stay."""
    calls: Sequence[str] = ()
    """Function calls that are open again."""
    instructions: str | None = None
    """The instructions that applied before; None if the turn did not change them."""


@dataclass(frozen=True, slots=True)
class TurnCommit:
    """Everything that the end of a turn stores: all of it or nothing."""

    session_id: str
    messages: Sequence[NewMessage] = ()
    response: ResponseRecord | None = None
    slug: str | None = None
    """Point this slug of the response's owner (or of `owner`) at the response, if the slug still leads to the
    session."""
    owner: str = ""
    parked: Sequence[ParkedCall] = ()
    idempotency: IdempotencyRecord | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that a search found."""

    session_id: str
    title: str | None
    message_id: int
    role: str
    snippet: str
    """The part of the text that contains the words, each in [brackets]."""
    created_at: float


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The state of the store, for a status page."""

    path: str
    engine: str
    journal_mode: str
    synchronous: str
    schema: int
    waiting_writes: int
    facts: JsonObject = field(default_factory=dict)


def new_session_id(random_bytes: Callable[[int], bytes]) -> str:
    """Return a new session id from the caller's source of randomness."""
    return f"sess_{random_bytes(16).hex()}"


def checked_session_id(session_id: str) -> str:
    """Return the id, or raise `BadSessionId`: an id names a file, so it must not be a path."""
    if SESSION_ID.fullmatch(session_id) is None:
        raise BadSessionId(session_id)
    return session_id


def clean_title(text: str) -> str:
    """Return a title as it is stored: one line, no control characters, trimmed, at most `TITLE_LIMIT` long. Raises
    `BadTitle`."""
    printable = "".join(" " if char.isspace() else char for char in text if char.isprintable() or char.isspace())
    title = " ".join(printable.split())[:TITLE_LIMIT].rstrip()
    if not title:
        raise BadTitle("it is empty")
    return title


def split_title(title: str) -> tuple[str, int]:
    """Return the lineage of a title and its place in it: "P" is ("P", 1), "P #3" is ("P", 3)."""
    found = CONTINUATION.fullmatch(title)
    return (title, 1) if found is None else (found[1], int(found[2]))
