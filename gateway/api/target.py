"""Which session a request of the Responses API belongs to.

Rules:
- Looking comes first and changes nothing; only a request that was found good makes a session, a slug or a fork.
- A response leads to its session. A response that is gone leaves the slug's own row; a row of an early version without
  a session leads nowhere.
- Going on from a response that is not the latest of its session is a fork: the session as it was then, in a child.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from ostler.gateway.api.body import ResponseBody
from ostler.gateway.api.errors import bad, missing
from ostler.gateway.ids import Ids
from ostler.gateway.records import (
    ConversationRecord,
    MessageRecord,
    NewSession,
    Origin,
    ParkState,
    SessionChange,
    SessionRecord,
    new_session_id,
)
from ostler.gateway.store import Store
from ostler.pool.keys import TransportKey
from ostler.wire.json import JsonObject

log = logging.getLogger(__name__)

SLUG_LIMIT = 256
PLATFORM = "api"


@dataclass(frozen=True, slots=True)
class Target:
    """Where the turn will run; `session` is None where one has to be made."""

    session: SessionRecord | None = None
    slug: str | None = None
    fork: tuple[MessageRecord, ...] | None = None
    """The transcript of the child, where the session has gone on since."""

    def kept(self, name: str) -> str | None:
        """What the session's metadata says."""
        value = None if self.session is None else self.session.metadata.get(name)
        return value if isinstance(value, str) else None


class Finder:
    """Looks sessions up, and makes them."""

    def __init__(self, store: Store, ids: Ids) -> None:
        self._store = store
        self._ids = ids

    async def find(self, body: ResponseBody, owner: str) -> Target:
        """Where this request leads. Writes nothing."""
        slug = slug_of(body.conversation)
        if slug is not None and body.previous_response_id is not None:
            raise bad("send either conversation or previous_response_id, not both", "conversation")
        if body.previous_response_id is not None:
            return await self._after(body.previous_response_id, owner)
        return Target() if slug is None else await self._called(slug, owner)

    async def open(
        self, target: Target, key: TransportKey, owner: str, *, keep_slug: bool, metadata: JsonObject
    ) -> str:
        """The id of the session, which exists from now on."""
        fresh = NewSession(
            new_session_id(self._ids.random_bytes),
            platform=PLATFORM,
            owner=owner,
            model=f"{key.provider}/{key.model}",
            cwd=key.cwd,
            metadata=metadata or None,
        )
        if target.fork is not None and target.session is not None:
            child = NewSession(
                fresh.id,
                platform=PLATFORM,
                owner=owner,
                origin=Origin.BRANCH,
                model=fresh.model,
                cwd=fresh.cwd,
                metadata={**target.session.metadata, **metadata},
            )
            messages = [message.again() for message in target.fork]
            return (await self._store.derive_session(target.session.id, child, messages=messages)).id
        if target.session is not None:
            known = target.session.metadata
            if any(known.get(name) != value for name, value in metadata.items()):
                await self._store.update_session(target.session.id, SessionChange(metadata={**known, **metadata}))
            return target.session.id
        if target.slug is not None and keep_slug:
            conversation = await self._store.claim_conversation(target.slug, fresh, owner=owner)
            return conversation.session_id or fresh.id
        return (await self._store.create_session(fresh)).id

    async def _after(self, response_id: str, owner: str) -> Target:
        """The session of a response, as it was when that response ended."""
        response = await self._store.get_response(response_id, owner=owner)
        if response is None:
            raise missing(f"there is no response {response_id[:100]!r}; it was deleted, evicted, or never made",
                          "previous_response_id")  # fmt: skip
        session = await self._store.live_end(response.session_id)
        if session is None:
            raise missing(f"the session of response {response_id[:100]!r} is gone", "previous_response_id")
        latest = await self._store.history(session.id, last=1)
        if not latest or latest[-1].response_id == response_id:
            return Target(session)
        history = await self._store.history(session.id)
        places = [place for place, message in enumerate(history) if message.response_id == response_id]
        if not places or await self._waits(session.id, response_id):
            return Target(session)
        return Target(session, fork=tuple(history[: places[-1] + 1]))

    async def _waits(self, session_id: str, response_id: str) -> bool:
        """Whether the response handed out calls that its client has not answered: it knows of nothing since."""
        asked = await self._store.parked(session_id, waiting=False)
        return any(call.response_id == response_id and call.state != ParkState.ANSWERED for call in asked)

    async def _called(self, slug: str, owner: str) -> Target:
        """The session of a slug."""
        row = await self._store.get_conversation(slug, owner=owner)
        if row is None:
            return Target(slug=slug)
        if row.session_id is None or row.response_id is None:
            session_id = await self._session_of(row, owner)
            return Target(None if session_id is None else await self._store.live_end(session_id), slug)
        # The usual case, where both are there: looked up at once.
        session, _ = await asyncio.gather(self._store.live_end(row.session_id), self._session_of(row, owner))
        return Target(session, slug)

    async def _session_of(self, row: ConversationRecord, owner: str) -> str | None:
        """The session id behind a row; None for a conversation that was created and never used."""
        response = await self._store.get_response(row.response_id, owner=owner) if row.response_id else None
        if response is not None:
            return row.session_id or response.session_id
        if row.session_id is not None and row.response_id is not None:
            log.info("conversation %r: its response is gone, its session %s is used", row.slug, row.session_id)
        if row.session_id is None and row.response_id is not None:
            raise missing(f"conversation {row.slug!r} has no session any more; use a new name", "conversation")
        return row.session_id


def slug_of(given: Any) -> str | None:
    """The name in `conversation`: a string, or an object with an id."""
    if given is None:
        return None
    slug = given.get("id") if isinstance(given, dict) else given
    if not isinstance(slug, str) or not 1 <= len(slug) <= SLUG_LIMIT or not slug.isprintable():
        text = f'conversation must be a string of 1 to {SLUG_LIMIT} printable characters, or {{"id": such a string}}'
        raise bad(text, "conversation")
    return slug
