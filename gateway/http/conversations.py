"""The routes of /v1/conversations: slugs as objects, and their items.

Rules:
- A conversation that does not exist is a 404.
- Lists show the stored items, newest first by default, paged as in the API.
- Deleting a conversation removes its name; its responses stay readable. With `erase=true` its text, its responses and
  the sessions that were branched from it are deleted too.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.http.answers import caller_of, document, no_such_item, page_of, paged, wants_erasing
from ostler.gateway.http.body import Metadata, read_object, typed
from ostler.gateway.http.errors import missing
from ostler.gateway.http.items import messages_of, named, read_input
from ostler.gateway.http.session_finder import PLATFORM, slug_of
from ostler.gateway.model.api_error import bad
from ostler.gateway.model.ids import Ids
from ostler.gateway.model.records import ConversationRecord, NewMessage, NewSession, new_session_id
from ostler.gateway.model.store import Store
from ostler.gateway.turns.erasing import Eraser
from ostler.wire.json import JsonObject

ITEMS_AT_ONCE = 20


class NewConversation(Struct, kw_only=True):
    """The body of POST /v1/conversations."""

    items: Annotated[list[dict[str, Any]], Meta(max_length=ITEMS_AT_ONCE)] | None = None
    metadata: Metadata | None = None


class Change(Struct, kw_only=True):
    """The body of POST /v1/conversations/{slug}."""

    metadata: Metadata


class NewItems(Struct, kw_only=True):
    """The body of POST /v1/conversations/{slug}/items."""

    items: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=ITEMS_AT_ONCE)]


class ConversationRoutes:
    """The routes of /v1/conversations. One per gateway."""

    def __init__(self, store: Store, ids: Ids, eraser: Eraser) -> None:
        self._store = store
        self._eraser = eraser
        self._ids = ids

    async def create(self, request: Request) -> Response:
        """Serve POST /v1/conversations: create a conversation with a new slug."""
        body = typed(await read_object(request), NewConversation)
        messages = self._messages(body.items or [], ())
        owner, slug = caller_of(request).name, self._ids.make("conv")
        session = NewSession(new_session_id(self._ids.random_bytes), platform=PLATFORM, owner=owner)
        row = await self._store.claim_conversation(slug, session, owner=owner)
        if messages and row.session_id is not None:
            await self._store.append(row.session_id, messages)
        if body.metadata:
            row = await self._store.update_conversation(slug, dict(body.metadata), owner=owner) or row
        return document(entry(row))

    async def retrieve(self, request: Request) -> Response:
        """Serve GET /v1/conversations/{slug}: its metadata."""
        return document(entry(await self._row(request)))

    async def update(self, request: Request) -> Response:
        """Serve POST /v1/conversations/{slug}: replace the metadata."""
        body = typed(await read_object(request), Change)
        row = await self._row(request)
        changed = await self._store.update_conversation(row.slug, dict(body.metadata), owner=row.owner)
        return document(entry(changed or row))

    async def delete(self, request: Request) -> Response:
        """Serve DELETE /v1/conversations/{slug}: remove the name, and erase the text on request."""
        row = await self._row(request)
        await self._store.delete_conversation(row.slug, owner=row.owner)
        if wants_erasing(request) and row.session_id is not None:
            await self._eraser.erase([row.session_id])
        return document({"id": row.slug, "object": "conversation.deleted", "deleted": True})

    async def items(self, request: Request) -> Response:
        """Serve GET /v1/conversations/{slug}/items: one page."""
        wanted, session_id = page_of(request), await self._live(await self._row(request))
        found: list[JsonObject] | None = []
        if session_id is not None:
            found = await self._store.items(session_id, wanted.limit + 1, newest=wanted.newest, after=wanted.after)
        if found is None or (session_id is None and wanted.after is not None):
            raise no_such_item(wanted.after or "")
        return document(paged(found, wanted))

    async def add_items(self, request: Request) -> Response:
        """Serve POST /v1/conversations/{slug}/items: append to the transcript."""
        given = typed(await read_object(request), NewItems).items
        row = await self._row(request)
        if row.session_id is None:
            raise missing(f"conversation {row.slug!r} has no session any more; use a new name", "conversation")
        messages = self._messages(given, await self._store.known_items(row.session_id, named(given)))
        if await self._store.append_to_conversation(row.slug, messages, owner=row.owner) is None:
            raise missing(f"there is no conversation {row.slug[:100]!r} any more", "conversation_id")
        data = [item for message in messages for item in message.items]
        ends = {"first_id": data[0].get("id"), "last_id": data[-1].get("id")} if data else {}
        return document({"object": "list", "data": data, "has_more": False, **ends})

    async def item(self, request: Request) -> Response:
        """Serve GET /v1/conversations/{slug}/items/{item}: one stored item."""
        wanted, session_id = request.path_params["item"], await self._live(await self._row(request))
        item = None if session_id is None else await self._store.item(session_id, wanted)
        if item is None:
            raise missing(f"there is no item {wanted[:100]!r} in this conversation", "item_id")
        return document(item)

    async def _row(self, request: Request) -> ConversationRecord:
        slug = slug_of(request.path_params["slug"]) or ""
        row = await self._store.get_conversation(slug, owner=caller_of(request).name)
        if row is None:
            raise missing(f"there is no conversation {slug[:100]!r}", "conversation_id")
        return row

    async def _live(self, row: ConversationRecord) -> str | None:
        """Return the id of the session in which the conversation continues now."""
        if row.session_id is None:
            return None
        live = await self._store.live_end(row.session_id)
        return live.id if live else row.session_id

    def _messages(self, items: list[dict[str, Any]], taken: Iterable[str]) -> list[NewMessage]:
        """Return items as messages of a transcript, in order. Raises a 400 for instructions."""
        said = read_input(items, self._ids.make, taken)
        if said.instructions:
            raise bad("items of a conversation are messages and results; send instructions with a response", "items")
        return messages_of(said)


def entry(row: ConversationRecord) -> JsonObject:
    """Return a conversation as the API shows it."""
    return {"id": row.slug, "object": "conversation", "created_at": int(row.created_at), "metadata": row.metadata}
