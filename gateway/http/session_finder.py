"""Finds or creates the session of a request of the Responses API.

Rules:
- `find` changes nothing. A session, a slug or a fork is created only for a request that passed every check.
- A response leads to its session. If a slug's response is gone, the session in the slug's row is used; a row of an
  early version without a session leads nowhere.
- A request that continues from a response is a fork if the response is not the latest of its session, or if another
  request continues from it already. The fork is a child session with the transcript as it was then. `continuity.way_on`
  decides, while this request has its reserved place.
"""

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Any

from ostler.gateway.http.body import ResponseBody
from ostler.gateway.http.errors import missing
from ostler.gateway.http.prefixes import ConversationEnd
from ostler.gateway.model import continuity
from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.model.continuity import Way
from ostler.gateway.model.records import (
    HELD_INSTRUCTIONS,
    ConversationRecord,
    MessageRecord,
    NewSession,
    ParkState,
    ResponseRecord,
    SessionChange,
    SessionOrigin,
    SessionRecord,
    new_session_id,
)
from ostler.gateway.turns.session import Reserved, Session
from ostler.gateway.turns.sessions import Sessions
from ostler.pool.keys import TransportKey
from ostler.wire.json import JsonObject

log = logging.getLogger(__name__)

SLUG_LIMIT = 256
PLATFORM = "api"
UNFINISHED = ("queued", "in_progress")
MOST_SILENT = 100
"""The most silent responses (without stored messages) that are followed back in a row."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the turn will run; `session` is None if one must be created."""

    session: SessionRecord | None = None
    slug: str | None = None
    after: ResponseRecord | None = None
    """The response that the request continues from."""
    owner: str = ""
    """The owner of the key that sent the request."""

    def kept(self, name: str) -> str | None:
        """Return a text from the session's metadata, or None."""
        value = None if self.session is None else self.session.metadata.get(name)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """The session of a request; it exists now."""

    session_id: str
    place: tuple[Session, Reserved] | None = None
    """The reserved place in which the turn must run."""


class InProgress(ApiError):
    """The response to fork from is not complete yet."""

    def __init__(self, response_id: str) -> None:
        text = f"response {response_id!r} is still being made, and another request goes on from it; wait for its end"
        super().__init__(409, text, param="previous_response_id", code="response_in_progress")
        self.response_id = response_id


class SessionFinder:
    """Finds and creates the sessions of requests."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._store = sessions.deps.store
        self._ids = sessions.deps.ids

    async def find(self, body: ResponseBody, owner: str) -> Target:
        """Return where this request leads. Writes nothing."""
        slug = slug_of(body.conversation)
        if slug is not None and body.previous_response_id is not None:
            raise bad("send either conversation or previous_response_id, not both", "conversation")
        if body.previous_response_id is not None:
            return await self._after(body.previous_response_id, owner)
        return Target(owner=owner) if slug is None else await self._called(slug, owner)

    async def open(
        self, target: Target, key: TransportKey, owner: str, *, keep_slug: bool, metadata: JsonObject
    ) -> OpenedSession:
        """Return the session, creating or forking it if needed. Raises `InProgress`."""
        fresh = NewSession(
            new_session_id(self._ids.random_bytes),
            platform=PLATFORM,
            owner=owner,
            model=f"{key.provider}/{key.model}",
            cwd=key.cwd,
            metadata=metadata or None,
        )
        if target.after is not None and target.session is not None:
            place = await self.place_after(target.session, owner, target.after)
            if place is None:
                return OpenedSession(await self._fork(target.session, target.after, fresh, metadata))
            try:
                await self._note(target.session, metadata)
            except BaseException:
                place[0].fill(place[1], None)
                raise
            return OpenedSession(target.session.id, place)
        if target.session is not None:
            await self._note(target.session, metadata)
            return OpenedSession(target.session.id)
        if target.slug is not None and keep_slug:
            conversation = await self._store.claim_conversation(target.slug, fresh, owner=owner)
            return OpenedSession(conversation.session_id or fresh.id)
        return OpenedSession((await self._store.create_session(fresh)).id)

    async def place_after(
        self, session: SessionRecord, owner: str, after: ResponseRecord
    ) -> tuple[Session, Reserved] | None:
        """Reserve a place in the session for a request that continues from this response. None if that is a fork.
        Raises `InProgress`."""
        place = self._sessions.reserve(session.id, owner, after.id)
        way: Way | None = None
        try:
            way = await self.way_on(session, after, joined=place is not None)
        finally:
            if place is not None and way is not Way.GO_ON:
                place[0].fill(place[1], None)
        if way is Way.WAIT:
            raise InProgress(after.id)
        return place if way is Way.GO_ON else None

    async def place_behind(self, ending: ConversationEnd, owner: str) -> tuple[Session, Reserved] | None:
        """Reserve a place in an idle session, if its transcript still ends with that answer."""
        at_work = self._sessions.find(ending.session_id)
        if at_work is not None and at_work.busy:
            return None
        place = self._sessions.reserve(ending.session_id, owner, ending.answer_id)
        same = False
        try:
            latest = await self._store.history(ending.session_id, last=1)
            same = bool(latest) and latest[-1].response_id == ending.answer_id
        finally:
            if place is not None and not same:
                place[0].fill(place[1], None)
        return place if same else None

    async def way_on(self, session: SessionRecord, after: ResponseRecord, *, joined: bool) -> Way:
        """Decide where the request goes by what the store has. Writes nothing."""
        latest = await self._store.history(session.id, last=1)
        if joined and latest and latest[-1].response_id == after.id:
            return Way.GO_ON
        size, history = await self._cut(session, after)
        waits = await self._waits(session.id, after.id)
        finished = after.status not in UNFINISHED
        return continuity.way_on(size, len(history), joined=joined, finished=finished, waits=waits)

    async def _cut(self, session: SessionRecord, after: ResponseRecord) -> tuple[int, list[MessageRecord]]:
        """Return how many messages were there when the response ended, and the transcript.

        A response whose agent never got its question has no messages: the response before it counts.
        """
        running = self._running(session.id)
        history = await self._store.history(session.id)
        running |= self._running(session.id)
        answers = [message.response_id for message in history]
        last, silent = after, after.id not in answers
        for _ in range(MOST_SILENT):
            if not silent or last.previous_response_id is None:
                break
            before = await self._store.get_response(last.previous_response_id, owner=last.owner)
            if before is None:
                break
            last, silent = before, before.id not in answers
        summed_up = session.origin == SessionOrigin.COMPRESSION  # there its messages went into the summary
        alone = last.previous_response_id is None and last.slug is None and not summed_up
        return continuity.cut(answers, last.id, begins=silent and alone, running=running), history

    def _running(self, session_id: str) -> set[str]:
        """Return the id of the answer that is being written in this session, if there is one."""
        at_work = self._sessions.find(session_id)
        return set() if at_work is None or at_work.turn is None else {at_work.turn.answer_id}

    async def _fork(
        self, session: SessionRecord, after: ResponseRecord, fresh: NewSession, metadata: JsonObject
    ) -> str:
        """Create a child session with the transcript as it was when the response ended."""
        child = replace(
            fresh,
            origin=SessionOrigin.BRANCH,
            instructions=after.body.get(HELD_INSTRUCTIONS, after.body.get("instructions") or session.instructions),
            metadata={**session.metadata, **metadata},
        )
        size, history = await self._cut(session, after)
        messages = [message.again() for message in history[:size]]
        return (await self._store.derive_session(session.id, child, messages=messages)).id

    async def _note(self, session: SessionRecord, metadata: JsonObject) -> None:
        known = session.metadata
        if any(known.get(name) != value for name, value in metadata.items()):
            await self._store.update_session(session.id, SessionChange(metadata={**known, **metadata}))

    async def _after(self, response_id: str, owner: str) -> Target:
        """Return the target for a request that names a response. Raises a 404 if it is gone."""
        response = await self._store.get_response(response_id, owner=owner)
        if response is None:
            raise missing(f"there is no response {response_id[:100]!r}; it was deleted, evicted, or never made",
                          "previous_response_id")  # fmt: skip
        session = await self._store.live_end(response.session_id)
        if session is None:
            raise missing(f"the session of response {response_id[:100]!r} is gone", "previous_response_id")
        return Target(session, after=response, owner=owner)

    async def _waits(self, session_id: str, response_id: str) -> bool:
        """Whether the response handed out calls that its client has not answered: the client knows nothing that came
        later."""
        asked = await self._store.parked(session_id, waiting=False)
        return any(call.response_id == response_id and call.state != ParkState.ANSWERED for call in asked)

    async def _called(self, slug: str, owner: str) -> Target:
        """Return the target for a request that names a slug."""
        row = await self._store.get_conversation(slug, owner=owner)
        if row is None:
            return Target(slug=slug, owner=owner)
        if row.session_id is None or row.response_id is None:
            session_id = await self._session_of(row, owner)
            return Target(None if session_id is None else await self._store.live_end(session_id), slug, owner=owner)
        # In the usual case both exist, so they are looked up concurrently.
        session, _ = await asyncio.gather(self._store.live_end(row.session_id), self._session_of(row, owner))
        return Target(session, slug, owner=owner)

    async def _session_of(self, row: ConversationRecord, owner: str) -> str | None:
        """Return the session id of a row; None for a conversation that was created and never used."""
        response = await self._store.get_response(row.response_id, owner=owner) if row.response_id else None
        if response is not None:
            return row.session_id or response.session_id
        if row.session_id is not None and row.response_id is not None:
            log.info("conversation %r: its response is gone, its session %s is used", row.slug, row.session_id)
        if row.session_id is None and row.response_id is not None:
            raise missing(f"conversation {row.slug!r} has no session any more; use a new name", "conversation")
        return row.session_id


def slug_of(given: Any) -> str | None:
    """Return the slug in `conversation`: a string, or an object with an id. Raises a 400."""
    if given is None:
        return None
    slug = given.get("id") if isinstance(given, dict) else given
    if not isinstance(slug, str) or not 1 <= len(slug) <= SLUG_LIMIT or not slug.isprintable():
        text = f'conversation must be a string of 1 to {SLUG_LIMIT} printable characters, or {{"id": such a string}}'
        raise bad(text, "conversation")
    return slug
