"""The store as the gateway sees it: each method is one job for the writer or one read.

Rules: rows are encoded here, in the caller's thread; records are decoded in the reader's thread. This file contains no
SQL.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import time
from typing import Self

from ostler.gateway.model.errors import StoreError
from ostler.gateway.model.records import (
    ConversationRecord,
    EndReason,
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
    checked_session_id,
    clean_title,
)
from ostler.gateway.model.store import ANY, StoreWatch
from ostler.gateway.stores.sqlite import (
    beginnings,
    children,
    conversations,
    erasing,
    idempotency,
    items,
    messages,
    parked,
    responses,
    routes,
    search,
    sessions,
    titles,
    turns,
    upkeep,
)
from ostler.gateway.stores.sqlite.connection import check_library
from ostler.gateway.stores.sqlite.file import SqliteSettings, StoreFile
from ostler.gateway.stores.sqlite.json import write_json
from ostler.metrics.loops import Loops
from ostler.wire.json import JsonObject

log = logging.getLogger("ostler.gateway.model.store")
WORD_PAGES = 500
"""Pages of the full-text index merged per step, while other writers wait for the lock."""


class SqliteStore:
    """Implements `gateway.model.store.Store`; the protocol documents the methods."""

    def __init__(self, file: StoreFile, *, settings: SqliteSettings, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock
        self._room = responses.Room(settings.responses_max, settings.responses_bytes_max)

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        settings: SqliteSettings | None = None,
        clock: Callable[[], float] = time,
        watch: StoreWatch | None = None,
        loops: Loops | None = None,
    ) -> Self:
        """Open or create the file and migrate it; see `StoreFile.open`."""
        check_library()
        wanted = SqliteSettings() if settings is None else settings
        return cls(await asyncio.to_thread(StoreFile.open, path, wanted, watch, loops), settings=wanted, clock=clock)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._file.close)

    # Sessions

    async def create_session(self, session: NewSession) -> SessionRecord:
        checked_session_id(session.id)
        now = self._clock()
        return await self._file.write(lambda db: sessions.create(db, session, now))

    async def get_session(self, session_id: str) -> SessionRecord | None:
        return await self._file.read(lambda db: sessions.get(db, session_id))

    async def update_session(self, session_id: str, change: SessionChange) -> SessionRecord:
        return await self._file.write(lambda db: sessions.update(db, session_id, change))

    async def end_session(self, session_id: str, reason: str) -> bool:
        now = self._clock()
        return await self._file.write(lambda db: sessions.end(db, session_id, str(reason), now))

    async def reopen_session(self, session_id: str) -> bool:
        return await self._file.write(lambda db: sessions.reopen(db, session_id))

    async def list_sessions(
        self, query: SessionQuery = ANY, *, limit: int = 50, offset: int = 0
    ) -> list[SessionRecord]:
        return await self._file.read(lambda db: sessions.listed(db, query, limit, offset))

    async def expiring_sessions(
        self, before: float, *, only: str | None = None, besides: Sequence[str] = (), limit: int = 500
    ) -> list[SessionRecord]:
        return await self._file.read(lambda db: sessions.expiring(db, before, only, besides, limit))

    async def sessions_by_prefix(self, prefix: str, *, limit: int = 10) -> list[SessionRecord]:
        return await self._file.read(lambda db: sessions.by_prefix(db, prefix, limit))

    async def live_end(self, session_id: str) -> SessionRecord | None:
        return await self._file.read(lambda db: sessions.live_end(db, session_id))

    async def derive_session(
        self,
        parent_id: str,
        child: NewSession,
        *,
        messages: Sequence[NewMessage] | None = None,
        end_parent: str | None = None,
        behind: int | None = None,
    ) -> SessionRecord:
        now = self._clock()
        born = replace(child, id=checked_session_id(child.id), parent_id=parent_id)
        said = None if messages is None else _written(messages, now)
        made = children.Derived(born, said, end_parent, behind)
        return await self._file.write(lambda db: children.derive(db, made, now))

    # Titles

    async def set_title(self, session_id: str, title: str) -> SessionRecord:
        cleaned = clean_title(title)
        return await self._file.write(lambda db: titles.set_title(db, session_id, cleaned))

    async def next_title(self, title: str, *, owner: str | None = None) -> str:
        cleaned = clean_title(title)
        return await self._file.read(lambda db: titles.next_title(db, cleaned, owner))

    async def find_title(self, title: str, query: SessionQuery = ANY) -> SessionRecord | None:
        return await self._file.read(lambda db: titles.find_title(db, title, query))

    # Routes

    async def route(self, key: str) -> RoutingRecord | None:
        return await self._file.read(lambda db: routes.route(db, key))

    async def set_route(self, key: str, session_id: str, *, platform: str | None = None) -> None:
        now = self._clock()
        await self._file.write(lambda db: routes.set_route(db, key, session_id, platform, now))

    async def recover_route(self, key: str, *, platform: str | None = None) -> RoutingRecord | None:
        found = await self.route(key)
        if found is not None:
            return found
        now = self._clock()
        return await self._file.write(lambda db: routes.recover(db, key, platform, now))

    async def switch_route(self, switch: RouteSwitch) -> SessionRecord:
        if isinstance(switch.target, NewSession):
            checked_session_id(switch.target.id)
        now = self._clock()
        return await self._file.write(lambda db: routes.switch(db, switch, now))

    # Transcripts

    async def append(self, session_id: str, messages: Sequence[NewMessage]) -> list[int]:
        now = self._clock()
        said = _written(messages, now)
        return await self._file.write(lambda db: _append(db, session_id, said, now))

    async def history(self, session_id: str, *, last: int | None = None, after: int = 0) -> list[MessageRecord]:
        return await self._file.read(lambda db: messages.history(db, session_id, last, after))

    async def page(
        self, session_id: str, limit: int, *, newest: bool, after: int | None = None
    ) -> list[MessageRecord] | None:
        return await self._file.read(lambda db: messages.page(db, session_id, limit, newest=newest, after=after))

    async def items(
        self, session_id: str, limit: int, *, newest: bool, after: str | None = None
    ) -> list[JsonObject] | None:
        return await self._file.read(lambda db: items.page(db, session_id, limit, newest=newest, after=after))

    async def item(self, session_id: str, item_id: str) -> JsonObject | None:
        found = await self._file.read(lambda db: items.find(db, session_id, item_id))
        return None if found is None else found[1]

    async def known_items(self, session_id: str, ids: Sequence[str]) -> set[str]:
        return await self._file.read(lambda db: items.known(db, session_id, ids))

    async def audit(self, session_id: str) -> list[MessageRecord]:
        return await self._file.read(lambda db: messages.audit(db, session_id))

    async def counts(self, session_id: str) -> MessageCounts:
        return await self._file.read(lambda db: messages.counts(db, session_id))

    async def deactivate_from(self, session_id: str, message_id: int) -> list[MessageRecord]:
        return await self._file.write(lambda db: messages.deactivate_from(db, session_id, message_id))

    async def deactivate(self, session_id: str, message_ids: Sequence[int]) -> int:
        return await self._file.write(lambda db: messages.deactivate(db, session_id, message_ids))

    async def rewrite_transcript(self, session_id: str, messages: Sequence[NewMessage]) -> list[int]:
        now = self._clock()
        said = _written(messages, now)
        return await self._file.write(lambda db: _rewrite(db, session_id, said, now))

    async def search(self, words: str, query: SessionQuery = ANY, *, limit: int = 20) -> list[SearchHit]:
        return await self._file.read(lambda db: search.search(db, words, query, limit))

    # Responses

    async def begin_turn(self, turn: TurnBegin) -> list[int]:
        made = beginnings.rows_of(turn, self._clock())
        return await self._file.write(lambda db: beginnings.begin(db, made, self._room))

    async def take_back(self, turn: TakenBack) -> None:
        await self._file.write(lambda db: beginnings.take_back(db, turn))

    async def commit_turn(self, turn: TurnCommit) -> list[int]:
        made = turns.rows_of(turn, self._clock())
        return await self._file.write(lambda db: turns.commit(db, made, self._room))

    async def save_response(self, response: ResponseRecord) -> None:
        row = responses.row_of(response)
        await self._file.write(lambda db: responses.save(db, row, self._room))

    async def get_response(self, response_id: str, *, owner: str = "") -> ResponseRecord | None:
        found = await self._file.read(lambda db: responses.get(db, response_id, owner))
        if found is not None:
            self._touch(response_id)
        return found

    async def input_items(
        self, response_id: str, limit: int, *, newest: bool, after: str | None = None, owner: str = ""
    ) -> list[JsonObject] | None:
        found = await self._file.read(
            lambda db: responses.input_items(db, response_id, owner, limit, newest=newest, after=after)
        )
        if found is not None:
            self._touch(response_id)
        return found

    def _touch(self, response_id: str) -> None:
        """Queued, not awaited: a read must not fail because the disk is full."""
        try:
            touching = self._file.write(lambda db: responses.touch(db, response_id))
        except StoreError as fault:
            log.warning("the use of response %s was not noted: %s", response_id, fault)
        else:
            touching.add_done_callback(_seen)

    async def delete_response(self, response_id: str, *, owner: str = "") -> bool:
        return await self._file.write(lambda db: responses.delete(db, response_id, owner))

    async def unfinished_responses(self) -> list[ResponseRecord]:
        return await self._file.read(responses.unfinished)

    # Conversations

    async def get_conversation(self, slug: str, *, owner: str = "") -> ConversationRecord | None:
        return await self._file.read(lambda db: conversations.get(db, slug, owner))

    async def move_conversation(self, slug: str, left: str | None, session_id: str, *, owner: str = "") -> bool:
        now = self._clock()
        lead = conversations.Lead(slug, owner, session_id, None)
        return await self._file.write(lambda db: conversations.move(db, lead, left, now))

    async def append_to_conversation(self, slug: str, messages: Sequence[NewMessage], *, owner: str = "") -> str | None:
        now = self._clock()
        said = _written(messages, now)
        return await self._file.write(lambda db: conversations.append(db, slug, owner, said, now))

    async def claim_conversation(self, slug: str, session: NewSession, *, owner: str = "") -> ConversationRecord:
        checked_session_id(session.id)
        now = self._clock()
        return await self._file.write(lambda db: conversations.claim(db, slug, owner, session, now))

    async def update_conversation(
        self, slug: str, metadata: JsonObject, *, owner: str = ""
    ) -> ConversationRecord | None:
        now = self._clock()
        text = write_json(metadata)
        return await self._file.write(lambda db: conversations.update(db, slug, owner, text, now))

    async def delete_conversation(self, slug: str, *, owner: str = "") -> bool:
        return await self._file.write(lambda db: conversations.delete(db, slug, owner))

    # Parked calls

    async def park(self, calls: Sequence[ParkedCall]) -> None:
        rows = [parked.row_of(call) for call in calls]
        await self._file.write(lambda db: parked.park(db, rows))

    async def answer(self, call_id: str, output: object) -> ParkedCall | None:
        text = write_json(output)
        return await self._file.write(lambda db: parked.answer(db, call_id, text))

    async def parked_call(self, call_id: str) -> ParkedCall | None:
        return await self._file.read(lambda db: parked.one(db, call_id))

    async def give_up(self, call_ids: Sequence[str]) -> None:
        await self._file.write(lambda db: parked.give_up(db, call_ids))

    async def parked(self, session_id: str | None = None, *, waiting: bool = True) -> list[ParkedCall]:
        return await self._file.read(lambda db: parked.listed(db, session_id, waiting))

    async def expire_parked(self, now: float | None = None) -> list[ParkedCall]:
        return await self._file.write(lambda db: parked.expire(db, now))

    # Idempotency

    async def remember(self, record: IdempotencyRecord) -> IdempotencyRecord:
        row, now = idempotency.row_of(record), self._clock()
        return await self._file.write(lambda db: idempotency.remember(db, row, now))

    async def recall(self, key: str, *, owner: str = "") -> IdempotencyRecord | None:
        now = self._clock()
        return await self._file.read(lambda db: idempotency.recall(db, key, owner, now))

    # Marks and upkeep

    async def set_mark(self, name: str, value: JsonObject) -> None:
        text = write_json(value)
        await self._file.write(lambda db: upkeep.set_mark(db, name, text))

    async def marks(self, prefix: str = "") -> dict[str, JsonObject]:
        return await self._file.read(lambda db: upkeep.marks(db, prefix))

    async def prune(self, *, before: float, limit: int = 1000) -> list[str]:
        gone = await self._file.write(lambda db: upkeep.prune(db, before, limit))
        if gone:
            self._file.empty_log()
        return gone

    async def end_unreachable(self, *, before: float, besides: Sequence[str] = (), limit: int = 1000) -> list[str]:
        idle = erasing.Idle(before, write_json(list(besides)), limit, erasing.Kind.ALIVE)
        found = await self._file.read(lambda db: erasing.unreachable(db, idle))
        if not found:
            return []
        these, now = replace(idle, among=found), self._clock()
        return await self._file.write(lambda db: erasing.end_unreachable(db, these, EndReason.UNREACHABLE, now))

    async def prune_unreachable(
        self,
        *,
        before: float,
        besides: Sequence[str] = (),
        only: str | None = None,
        unstored: bool = False,
        limit: int = 1000,
    ) -> list[str]:
        kind = erasing.Kind.UNSTORED if unstored else erasing.Kind.LEFT
        among = None if only is None else [only]
        idle = erasing.Idle(before, write_json(list(besides)), limit, kind, among)
        found = await self._file.read(lambda db: erasing.unreachable(db, idle))
        if not found:
            return []
        gone = await self._file.write(lambda db: erasing.prune_unreachable(db, replace(idle, among=found)))
        self._file.empty_log()
        return gone

    async def with_copies(self, session_ids: Sequence[str]) -> list[str]:
        return await self._file.read(lambda db: erasing.doomed(db, session_ids))

    async def erase(self, session_ids: Sequence[str]) -> list[str]:
        gone = await self._file.write(lambda db: erasing.erase(db, session_ids))
        if gone:
            await self.erase_words()
        return gone

    async def erase_words(self) -> None:
        pages = -WORD_PAGES
        while await self._file.write(partial(erasing.merge_words, pages=pages)):
            pages = WORD_PAGES
        self._file.empty_log()

    async def erase_owner(self, owner: str) -> None:
        await self._file.write(lambda db: erasing.erase_owner(db, owner))
        self._file.empty_log()

    async def facts(self) -> StoreFacts:
        found = await self._file.write(lambda db: upkeep.facts(db, self._file.path))
        return replace(found, waiting_writes=self._file.waiting)


# Aliases for the methods that have a parameter called `messages`, as the protocol does.
_written, _append, _rewrite = messages.written, messages.append, messages.rewrite


def _seen(done: asyncio.Future[None]) -> None:
    """Retrieve the error, so that asyncio does not report it: the writer has logged it and no caller waits."""
    if not done.cancelled():
        done.exception()
