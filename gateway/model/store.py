"""What a store of the gateway can do. Every store passes `tests/contracts/stores`.

Rules:
- When a writing call returns, what it wrote survives kill -9 and a power cut. When it raises, nothing of it was done.
- A call is one transaction. What must happen together is one call (`commit_turn`, `derive_session`), never two.
- No error switches a store off: the next call tries again. Reads go on while writes fail.
- `StoreError` says that the store cannot, `Refused` that the request cannot; nothing else is raised.
- An active message is in the transcript. Nothing here deletes a message, except `prune` and `erase`.
- A cancelled writer may still have written; its caller knows neither way, as after a lost connection.
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
    async def create_session(self, session: NewSession) -> SessionRecord:
        """Make it, or fill what is not set in the one that is there. What is set stays."""

    async def get_session(self, session_id: str) -> SessionRecord | None: ...

    async def update_session(self, session_id: str, change: SessionChange) -> SessionRecord:
        """Or `UnknownSession`."""

    async def end_session(self, session_id: str, reason: str) -> bool:
        """Whether this call ended it: the first reason stays. False for an unknown one."""

    async def reopen_session(self, session_id: str) -> bool:
        """Take the end mark, its reason and the finalisation of its expiry away. Whether there was one."""

    async def list_sessions(
        self, query: SessionQuery = ANY, *, limit: int = 50, offset: int = 0
    ) -> list[SessionRecord]:
        """The last active first, by what was stored last, not by a clock."""

    async def expiring_sessions(
        self, before: float, *, only: str | None = None, besides: Sequence[str] = (), limit: int = 500
    ) -> list[SessionRecord]:
        """Sessions with a key that were last active before then, are alive or were ended by their expiry, and are not
        finalised: those of one platform, or of all but some. The longest idle first."""

    async def count_sessions(self, query: SessionQuery = ANY) -> int: ...

    async def sessions_by_prefix(self, prefix: str, *, limit: int = 10) -> list[SessionRecord]:
        """Those whose id begins so."""

    async def live_end(self, session_id: str) -> SessionRecord | None:
        """Where a session lives now: itself, or the end of the chain of children it was compressed into."""

    async def derive_session(
        self,
        parent_id: str,
        child: NewSession,
        *,
        messages: Sequence[NewMessage] | None = None,
        end_parent: str | None = None,
        behind: int | None = None,
    ) -> SessionRecord:
        """A child session in one step: with `messages`, or else with a copy of the parent's transcript.

        With `end_parent` the parent ends with that reason, and keys and slugs that lead to it lead to the child. With
        `behind` also what the parent's transcript has behind that message comes along, after `messages`.
        """


class Titles(Protocol):
    async def set_title(self, session_id: str, title: str) -> SessionRecord:
        """Or `TitleTaken` (by another session of the same owner), `BadTitle`, `UnknownSession`."""

    async def next_title(self, title: str, *, owner: str | None = None) -> str:
        """The next free continuation of a lineage: "P #2" after "P"; the title itself where it is free."""

    async def find_title(self, title: str, query: SessionQuery = ANY) -> SessionRecord | None:
        """The newest continuation: "P" finds "P #10". A numbered title finds exactly itself."""


class Routes(Protocol):
    async def route(self, key: str) -> RoutingRecord | None: ...

    async def set_route(self, key: str, session_id: str, *, platform: str | None = None) -> None:
        """Or `UnknownSession`."""

    async def recover_route(self, key: str, *, platform: str | None = None) -> RoutingRecord | None:
        """The route, or, where it was lost, the latest live session of this key and platform that has a message.

        What was recovered is stored. A session that was ended is never brought back.
        """

    async def switch_route(self, switch: RouteSwitch) -> SessionRecord:
        """End the session that is left, make or reopen the other one, and lead the key there, all in one step.

        The session the key leads to now. `RouteMoved` where it did not lead to `leaving` any more: of two who switch
        at once one wins. `UnknownSession` where the target is not there.
        """


class Transcripts(Protocol):
    async def append(self, session_id: str, messages: Sequence[NewMessage]) -> list[int]:
        """Store messages at the end, or `UnknownSession`. The ids grow."""

    async def history(self, session_id: str, *, last: int | None = None, after: int = 0) -> list[MessageRecord]:
        """The transcript: active messages in the order of their ids; with `last` only the newest ones, with `after`
        only those behind that id."""

    async def page(
        self, session_id: str, limit: int, *, newest: bool, after: int | None = None
    ) -> list[MessageRecord] | None:
        """So many messages of the transcript, the newest or the oldest first, behind the one with the id `after`; None
        where there is no such message."""

    async def items(
        self, session_id: str, limit: int, *, newest: bool, after: str | None = None
    ) -> list[JsonObject] | None:
        """So many items of the transcript, the newest or the oldest first, behind the one with the id `after`; None
        where there is no such item."""

    async def item(self, session_id: str, item_id: str) -> JsonObject | None:
        """One item of the transcript."""

    async def known_items(self, session_id: str, ids: Sequence[str]) -> set[str]:
        """Those of the ids that items of the transcript have."""

    async def audit(self, session_id: str) -> list[MessageRecord]:
        """Every message that was ever stored, active or not."""

    async def counts(self, session_id: str) -> MessageCounts: ...

    async def deactivate_from(self, session_id: str, message_id: int) -> list[MessageRecord]:
        """Take this active message and all after it out of the transcript and out of search; or `UnknownMessage`."""

    async def deactivate(self, session_id: str, message_ids: Sequence[int]) -> int:
        """Take exactly these out of the transcript and out of search, as far as they are in it. How many were."""

    async def rewrite_transcript(self, session_id: str, messages: Sequence[NewMessage]) -> list[int]:
        """Put these in place of the transcript. The old messages stay, inactive."""

    async def compact(
        self, session_id: str, summary: Sequence[NewMessage], *, keep_from: int | None = None
    ) -> list[MessageRecord]:
        """Put a summary in place of the messages before `keep_from` (None: of all). The new transcript.

        What is summarised is out of the transcript and still found by search. What is kept is stored anew behind the
        summary, because the order is that of the ids.
        """

    async def search(self, words: str, query: SessionQuery = ANY, *, limit: int = 20) -> list[SearchHit]:
        """Messages with all these words, the newest first. Where whole words find too few, the last may be a beginning.

        Undone messages are never found, summarised ones are.
        """


class ResponseStore(Protocol):
    async def begin_turn(self, turn: TurnBegin) -> list[int]:
        """Store how a turn begins, in one step; the ids of its messages.

        `CallsAnswered` where one of the calls has an answer, `ConversationMoved` where the session was compressed.
        """

    async def take_back(self, turn: TakenBack) -> None:
        """Undo that, in one step, as far as it is still there."""

    async def commit_turn(self, turn: TurnCommit) -> list[int]:
        """Store what a turn left behind, in one step; the ids of its messages."""

    async def save_response(self, response: ResponseRecord) -> None:
        """Store it, in place of the one with the same id. May evict the least recently used ones; never a slug."""

    async def get_response(self, response_id: str, *, owner: str = "") -> ResponseRecord | None:
        """And count it as used. None where it was evicted, deleted, cannot be read, or is another owner's."""

    async def input_items(
        self, response_id: str, limit: int, *, newest: bool, after: str | None = None, owner: str = ""
    ) -> list[JsonObject] | None:
        """So many of the items that a response was made from, as `items`; and count it as used. None also where
        `get_response` finds none."""

    async def delete_response(self, response_id: str, *, owner: str = "") -> bool: ...

    async def list_responses(
        self, *, session_id: str | None = None, slug: str | None = None, owner: str = "", limit: int = 50
    ) -> list[ResponseRecord]:
        """The newest first. Does not count as use."""

    async def unfinished_responses(self) -> list[ResponseRecord]:
        """Those still queued or in progress: after a restart nobody works on them."""


class ConversationStore(Protocol):
    async def get_conversation(self, slug: str, *, owner: str = "") -> ConversationRecord | None: ...

    async def set_conversation(
        self, slug: str, response_id: str | None, session_id: str | None = None, *, owner: str = ""
    ) -> ConversationRecord:
        """Point it there. What is None stays as it is."""

    async def move_conversation(self, slug: str, left: str | None, session_id: str, *, owner: str = "") -> bool:
        """Lead it from the session `left` (None: it was not there) to another one. False where it leads elsewhere by
        now, or was deleted: then nothing is done."""

    async def append_to_conversation(self, slug: str, messages: Sequence[NewMessage], *, owner: str = "") -> str | None:
        """Store messages at the end of the session where it leads at this moment; the id of that session. None where
        it is not there, or leads nowhere."""

    async def claim_conversation(self, slug: str, session: NewSession, *, owner: str = "") -> ConversationRecord:
        """The conversation; where it is not there or has no session, with this session made for it: racing first
        turns get one session."""

    async def update_conversation(
        self, slug: str, metadata: JsonObject, *, owner: str = ""
    ) -> ConversationRecord | None:
        """Replace its metadata."""

    async def delete_conversation(self, slug: str, *, owner: str = "") -> bool:
        """Forget the slug. Session and responses stay."""

    async def list_conversations(
        self, *, owner: str = "", limit: int = 50, offset: int = 0
    ) -> list[ConversationRecord]:
        """The newest first."""


class ParkedCalls(Protocol):
    async def park(self, calls: Sequence[ParkedCall]) -> None: ...

    async def answer(self, call_id: str, output: object) -> ParkedCall | None:
        """The call as it was before: only one that was waiting is now answered. None for an unknown one."""

    async def parked_call(self, call_id: str) -> ParkedCall | None: ...

    async def give_up(self, call_ids: Sequence[str]) -> None:
        """Expire those of them that wait: whoever was asked need not answer any more."""

    async def parked(self, session_id: str | None = None, *, waiting: bool = True) -> list[ParkedCall]:
        """Calls of a session (of all), oldest first."""

    async def expire_parked(self, now: float | None = None) -> list[ParkedCall]:
        """Expire those that wait beyond their deadline (None: all, as after a restart), and name them."""


class Idempotency(Protocol):
    async def remember(self, record: IdempotencyRecord) -> IdempotencyRecord:
        """The record in force: this one, or the one that is already there and has not expired."""

    async def recall(self, key: str, *, owner: str = "") -> IdempotencyRecord | None: ...


class Marks(Protocol):
    """Small durable notes of the gateway to its next life, such as the turns that a drain cut off."""

    async def set_mark(self, name: str, value: JsonObject) -> None: ...

    async def marks(self, prefix: str = "") -> dict[str, JsonObject]: ...

    async def clear_mark(self, name: str) -> None: ...


class Upkeep(Protocol):
    async def prune(self, *, before: float, limit: int = 1000) -> list[str]:
        """Delete ended sessions that were last active before a time, and that no key, slug or child leads to."""

    async def end_unreachable(self, *, before: float, besides: Sequence[str] = (), limit: int = 1000) -> list[str]:
        """End sessions without a key that were last active before a time and that no slug, response, child or waiting
        call leads to, but for some. Their ids."""

    async def prune_unreachable(
        self,
        *,
        before: float,
        besides: Sequence[str] = (),
        only: str | None = None,
        unstored: bool = False,
        limit: int = 1000,
    ) -> list[str]:
        """Delete such sessions, ended or not, also where responses lead to them whose slug is gone or has moved.

        `only`: this one, if it is such. `unstored`: those alone whose client asked that nothing be stored, and that no
        response leads to. Their ids.
        """

    async def with_copies(self, session_ids: Sequence[str]) -> list[str]:
        """These sessions and those that hold copies of their text: every child, and what they were compressed from."""

    async def erase(self, session_ids: Sequence[str]) -> list[str]:
        """Delete these sessions and those that `with_copies` names, whatever leads to them, and overwrite their text.
        The ids of those that were there."""

    async def erase_words(self) -> None:
        """Take out of the index of words those of text that was pruned. Takes a while, and lets others write meanwhile;
        `erase` does it by itself."""

    async def erase_owner(self, owner: str) -> None:
        """The same for the responses, conversations and repeatable answers of an owner, whatever session is theirs."""

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
    """Sessions that never lose a word."""
