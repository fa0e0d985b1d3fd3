"""What a store of the gateway can do. Every store passes `tests/contracts/stores`.

Rules:
- When a writing call returns, what it wrote survives kill -9 and a power cut. When it raises, it has written nothing.
- A call is one transaction. What must happen together is one call (`commit_turn`, `derive_session`), never two.
- No error disables a store: the next call tries again. Reads go on while writes fail.
- `StoreError` says that the store cannot, `RequestRefused` that the request cannot; no other error is raised.
- An active message is in the transcript. No call deletes a message, except `prune...` and `erase...`.
- A cancelled write may still have happened; its caller cannot know, as after a lost connection.
"""

from collections.abc import Sequence
from typing import Protocol

from ostler.gateway.model.records import (
    ConversationRecord,
    IdempotencyRecord,
    MessageCounts,
    MessageRecord,
    NewMessage,
    NewSession,
    ParkedCall,
    ResponseRecord,
    RouteSwitch,
    RoutingRecord,
    SearchHit,
    SessionChange,
    SessionQuery,
    SessionRecord,
    StoreFacts,
    TakenBack,
    TurnBegin,
    TurnCommit,
)
from ostler.wire.json import JsonObject

ANY = SessionQuery()


class SessionStore(Protocol):
    """Sessions: creating, changing, ending, listing and deriving them."""

    async def create_session(self, session: NewSession) -> SessionRecord:
        """Create the session, or fill the fields that are not set in the existing one. Fields that are set stay."""

    async def get_session(self, session_id: str) -> SessionRecord | None: ...

    async def update_session(self, session_id: str, change: SessionChange) -> SessionRecord:
        """Apply the change and return the session. Raises `NoSuchSession`."""

    async def end_session(self, session_id: str, reason: str) -> bool:
        """Return whether this call ended the session: the first reason stays. False for an unknown session."""

    async def reopen_session(self, session_id: str) -> bool:
        """Remove the end mark, its reason and the finalisation of its expiry. Return whether there was an end mark."""

    async def list_sessions(
        self, query: SessionQuery = ANY, *, limit: int = 50, offset: int = 0
    ) -> list[SessionRecord]:
        """Return sessions, the last active first, ordered by what was stored last and not by a clock."""

    async def expiring_sessions(
        self, before: float, *, only: str | None = None, besides: Sequence[str] = (), limit: int = 500
    ) -> list[SessionRecord]:
        """Return sessions with a key, last active before `before`, live or ended by their expiry, and not finalised.

        `only` limits them to one platform, `besides` excludes platforms. The longest idle come first.
        """

    async def sessions_by_prefix(self, prefix: str, *, limit: int = 10) -> list[SessionRecord]:
        """Return the sessions whose id begins with the prefix."""

    async def live_end(self, session_id: str) -> SessionRecord | None:
        """Return the session in which this one continues: itself, or the last of the children it was compressed
        into."""

    async def derive_session(
        self,
        parent_id: str,
        child: NewSession,
        *,
        messages: Sequence[NewMessage] | None = None,
        end_parent: str | None = None,
        behind: int | None = None,
    ) -> SessionRecord:
        """Create a child session in one step, with `messages` or else with a copy of the parent's transcript.

        With `end_parent` the parent ends with that reason, and keys and slugs that lead to it lead to the child. With
        `behind`, the messages after that id in the parent's transcript are copied too, after `messages`.
        """


class Titles(Protocol):
    """Titles of sessions, and the lineages that titles name."""

    async def set_title(self, session_id: str, title: str) -> SessionRecord:
        """Set the title. Raises `TitleTaken` (by another session of the same owner), `BadTitle` or `NoSuchSession`."""

    async def next_title(self, title: str, *, owner: str | None = None) -> str:
        """Return the next free continuation of a lineage: "P #2" after "P"; the title itself if it is free."""

    async def find_title(self, title: str, query: SessionQuery = ANY) -> SessionRecord | None:
        """Return the session with the newest continuation: "P" finds "P #10". A numbered title finds exactly itself."""


class Routes(Protocol):
    """Session keys of chat surfaces, and the sessions that they lead to."""

    async def route(self, key: str) -> RoutingRecord | None: ...

    async def set_route(self, key: str, session_id: str, *, platform: str | None = None) -> None:
        """Lead the key to this session. Raises `NoSuchSession`."""

    async def recover_route(self, key: str, *, platform: str | None = None) -> RoutingRecord | None:
        """Return the route or, if it was lost, the latest live session of this key and platform that has a message.

        A recovered route is stored. An ended session is never recovered.
        """

    async def switch_route(self, switch: RouteSwitch) -> SessionRecord:
        """End the session that is left, create or reopen the target, and lead the key there, all in one step.

        Return the session that the key leads to now. Raises `RouteMoved` if the key did not lead to `leaving` any more:
        of two concurrent switches one wins. Raises `NoSuchSession` if the target does not exist.
        """


class Transcripts(Protocol):
    """Messages of sessions: the transcript, its changes, and search."""

    async def append(self, session_id: str, messages: Sequence[NewMessage]) -> list[int]:
        """Store messages at the end and return their ids, which increase. Raises `NoSuchSession`."""

    async def history(self, session_id: str, *, last: int | None = None, after: int = 0) -> list[MessageRecord]:
        """Return the transcript: active messages in the order of their ids. `last` limits it to the newest, `after` to
        those with a greater id."""

    async def page(
        self, session_id: str, limit: int, *, newest: bool, after: int | None = None
    ) -> list[MessageRecord] | None:
        """Return at most `limit` messages of the transcript, newest or oldest first, that follow the one with the id
        `after`; None if there is no such message."""

    async def items(
        self, session_id: str, limit: int, *, newest: bool, after: str | None = None
    ) -> list[JsonObject] | None:
        """Return at most `limit` items of the transcript, newest or oldest first, that follow the one with the id
        `after`; None if there is no such item."""

    async def item(self, session_id: str, item_id: str) -> JsonObject | None:
        """Return one item of the transcript, or None."""

    async def known_items(self, session_id: str, ids: Sequence[str]) -> set[str]:
        """Return those of the ids that belong to items of the transcript."""

    async def audit(self, session_id: str) -> list[MessageRecord]:
        """Return every message that was ever stored, active or not."""

    async def counts(self, session_id: str) -> MessageCounts: ...

    async def deactivate_from(self, session_id: str, message_id: int) -> list[MessageRecord]:
        """Remove this active message and all after it from the transcript and from search. Raises `UnknownMessage`."""

    async def deactivate(self, session_id: str, message_ids: Sequence[int]) -> int:
        """Remove exactly these messages from the transcript and from search. Return how many were in it."""

    async def rewrite_transcript(self, session_id: str, messages: Sequence[NewMessage]) -> list[int]:
        """Replace the transcript by these messages. The old messages stay, inactive."""

    async def search(self, words: str, query: SessionQuery = ANY, *, limit: int = 20) -> list[SearchHit]:
        """Return messages with all these words, the newest first. If whole words find too few, the last one may be a
        prefix.

        Undone messages are never found, summarised ones are.
        """


class ResponseStore(Protocol):
    """Responses of the OpenAI API, and what a turn stores in one step."""

    async def begin_turn(self, turn: TurnBegin) -> list[int]:
        """Store how a turn begins, in one step; return the ids of its messages.

        Raises `CallsAnswered` if one of the calls has an answer, `ConversationMoved` if the session was compressed.
        """

    async def take_back(self, turn: TakenBack) -> None:
        """Undo `begin_turn` in one step, as far as its results still exist."""

    async def commit_turn(self, turn: TurnCommit) -> list[int]:
        """Store the results of a turn in one step; return the ids of its messages."""

    async def save_response(self, response: ResponseRecord) -> None:
        """Store the response, in place of one with the same id. May evict the least recently used responses; never a
        slug."""

    async def get_response(self, response_id: str, *, owner: str = "") -> ResponseRecord | None:
        """Return the response and count it as used. None if it was evicted or deleted, is unreadable, or belongs to
        another owner."""

    async def input_items(
        self, response_id: str, limit: int, *, newest: bool, after: str | None = None, owner: str = ""
    ) -> list[JsonObject] | None:
        """Return some of the items that a response was made from, with the arguments of `items`, and count it as used.
        None also if `get_response` returns None."""

    async def delete_response(self, response_id: str, *, owner: str = "") -> bool: ...

    async def unfinished_responses(self) -> list[ResponseRecord]:
        """Return the responses that are still queued or in progress: after a restart no turn works on them."""


class ConversationStore(Protocol):
    """Conversations of the OpenAI API: slugs, and the sessions that they lead to."""

    async def get_conversation(self, slug: str, *, owner: str = "") -> ConversationRecord | None: ...

    async def move_conversation(self, slug: str, left: str | None, session_id: str, *, owner: str = "") -> bool:
        """Lead the slug from the session `left` (None: the slug did not exist) to another one. False if it leads
        elsewhere by now or was deleted; then nothing is changed."""

    async def append_to_conversation(self, slug: str, messages: Sequence[NewMessage], *, owner: str = "") -> str | None:
        """Store messages at the end of the session that the slug leads to now; return that session's id. None if the
        slug does not exist or leads to no session."""

    async def claim_conversation(self, slug: str, session: NewSession, *, owner: str = "") -> ConversationRecord:
        """Return the conversation. If it does not exist or has no session, create this session for it: concurrent first
        turns get one session."""

    async def update_conversation(
        self, slug: str, metadata: JsonObject, *, owner: str = ""
    ) -> ConversationRecord | None:
        """Replace the metadata of the slug. None if it does not exist."""

    async def delete_conversation(self, slug: str, *, owner: str = "") -> bool:
        """Delete the slug. Its session and responses stay."""


class ParkedCalls(Protocol):
    """Function calls and permission requests that wait for an API client."""

    async def park(self, calls: Sequence[ParkedCall]) -> None: ...

    async def answer(self, call_id: str, output: object) -> ParkedCall | None:
        """Answer a waiting call, and return the call as it was before. A call that does not wait is left as it is. None
        for an unknown one."""

    async def parked_call(self, call_id: str) -> ParkedCall | None: ...

    async def give_up(self, call_ids: Sequence[str]) -> None:
        """Expire those of these calls that wait: their client need not answer any more."""

    async def parked(self, session_id: str | None = None, *, waiting: bool = True) -> list[ParkedCall]:
        """Return the calls of one session, or of all, oldest first."""

    async def expire_parked(self, now: float | None = None) -> list[ParkedCall]:
        """Expire and return the calls that wait beyond their deadline (None: all, as after a restart)."""


class Idempotency(Protocol):
    """Answers by idempotency key."""

    async def remember(self, record: IdempotencyRecord) -> IdempotencyRecord:
        """Store the record. Return the record in force: this one, or an earlier one that has not expired."""

    async def recall(self, key: str, *, owner: str = "") -> IdempotencyRecord | None: ...


class Marks(Protocol):
    """Small durable notes from the gateway to its next run, such as the turns that a drain cut off."""

    async def set_mark(self, name: str, value: JsonObject) -> None: ...

    async def marks(self, prefix: str = "") -> dict[str, JsonObject]: ...


class Upkeep(Protocol):
    """Deletion of what is no longer needed, facts for operators, and closing."""

    async def prune(self, *, before: float, limit: int = 1000) -> list[str]:
        """Delete ended sessions that were last active before a time, and that no key, slug or child leads to. Return
        their ids."""

    async def end_unreachable(self, *, before: float, besides: Sequence[str] = (), limit: int = 1000) -> list[str]:
        """End sessions without a key that were last active before a time and that no slug, response, child or waiting
        call leads to, except those in `besides`. Return their ids."""

    async def prune_unreachable(
        self,
        *,
        before: float,
        besides: Sequence[str] = (),
        only: str | None = None,
        unstored: bool = False,
        limit: int = 1000,
    ) -> list[str]:
        """Delete such sessions, ended or not, also if responses lead to them whose slug was deleted or has moved.
        Return their ids.

        `only`: delete this one only, if it is such a session. `unstored`: delete only sessions whose client asked that
        nothing be stored and that no response leads to.
        """

    async def with_copies(self, session_ids: Sequence[str]) -> list[str]:
        """Return these sessions and those with copies of their text: every child, and the sessions they were compressed
        from."""

    async def erase(self, session_ids: Sequence[str]) -> list[str]:
        """Delete these sessions and those that `with_copies` names, whatever leads to them, and overwrite their text.
        Return the ids of those that existed."""

    async def erase_words(self) -> None:
        """Remove the words of pruned text from the search index. Takes a while, and other writes may run in between;
        `erase` does it by itself."""

    async def erase_owner(self, owner: str) -> None:
        """Do the same for the responses, conversations and repeatable answers of an owner, of all sessions."""

    async def facts(self) -> StoreFacts: ...

    async def aclose(self) -> None:
        """Finish what is queued, then close. A second call waits for the first."""


class Store(
    SessionStore,
    Titles,
    Routes,
    Transcripts,
    ResponseStore,
    ConversationStore,
    ParkedCalls,
    Idempotency,
    Marks,
    Upkeep,
    Protocol,
):
    """The whole store of a gateway: sessions, routes, transcripts, responses, calls and upkeep behind one port."""


class StoreWatch(Protocol):
    """Receives counts and waits of writes, for metrics. Its methods must not block.

    The writer thread calls it. `StoreBusy` is reported by the thread that was refused, because the job never reaches
    the writer.
    """

    def stored(self, waits: Sequence[float]) -> None:
        """Writes that one sync made durable; for each, the seconds from its submission."""

    def failed(self, kind: str, count: int) -> None:
        """`count` writes were not stored; `kind` is the name of the error class."""


class NoStoreWatch:
    """A `StoreWatch` that does nothing."""

    def stored(self, waits: Sequence[float]) -> None:
        pass

    def failed(self, kind: str, count: int) -> None:
        pass
