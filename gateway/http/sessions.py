"""The routes of /v1/sessions: a chat surface for programs, and reading of what was said.

Rules:
- The key in the path is the caller's own name for a conversation. Different callers never share one, even with the same
  key. A session of another caller is a 404, as if it did not exist.
- Reading never begins, resets or recovers a session.
"""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.chat.answer import MessageEvents, message_document, stored_events, stored_message
from ostler.gateway.chat.frontend import ChatFrontend
from ostler.gateway.chat.message import ChatMessage, Notice
from ostler.gateway.chat.session_keys import checked_key
from ostler.gateway.http.answering import Answering, Exchange
from ostler.gateway.http.answers import caller_of, document, no_such_item, page_of, paged
from ostler.gateway.http.answers import number as whole_number
from ostler.gateway.http.body import read_json, typed
from ostler.gateway.http.errors import missing, of_outcome
from ostler.gateway.http.frames import EventEncoder
from ostler.gateway.http.idempotency import session_of
from ostler.gateway.http.streaming import KeptAnswers, OpenAnswer
from ostler.gateway.model.api_error import bad
from ostler.gateway.model.records import MessageRecord, SessionQuery, SessionRecord
from ostler.gateway.turns.answer import AnswerStream
from ostler.wire.json import JsonObject

LISTED = 100


class NewMessageBody(Struct, kw_only=True):
    """The body of POST /v1/sessions/{key}/messages."""

    text: str = ""
    attachments: Annotated[list[dict[str, Any]], Meta(max_length=32)] | None = None
    stream: bool | None = None


class SessionRoutes:
    """The routes of /v1/sessions. One per gateway."""

    def __init__(self, face: ChatFrontend, answering: Answering) -> None:
        self._face = face
        self._answering = answering
        self._kept = KeptAnswers(most=0, bytes_at_most=0)
        """Answers that are being given."""
        self._store = face.chat_deps.sessions.deps.store

    async def say(self, request: Request) -> Response:
        """Serve POST /v1/sessions/{key}/messages: a message or a slash command."""
        caller = caller_of(request)
        key = checked_key(request.path_params["key"], caller.name)
        body = typed(await read_json(request), NewMessageBody)
        message = ChatMessage(key, body.text, tuple(body.attachments or ()), caller)
        exchange = Exchange(
            partial(self._begin, message),
            lambda known: stored(orjson.loads(known.body), session_of(known)),
            asks=self._face.asks(body.text),
            streams=bool(body.stream),
        )
        return await self._answering.answer(request, exchange)

    async def all(self, request: Request) -> Response:
        """Serve GET /v1/sessions: the caller's sessions, or the messages that match `q`."""
        query = request.query_params
        limit, offset = number(request, "limit", 20, 1, LISTED), number(request, "offset", 0, 0, 1_000_000)
        wanted = SessionQuery(
            platform=query.get("platform"),
            owner=caller_of(request).name,
            chat=query.get("chat"),
            live=flag(request, "live"),
        )
        if query.get("q"):
            hits = await self._store.search(query["q"], wanted, limit=limit)
            data = [{"object": "session.hit", **msgspec.to_builtins(hit)} for hit in hits]
            return document({"object": "list", "data": data, "has_more": False})
        found = await self._store.list_sessions(wanted, limit=limit + 1, offset=offset)
        data = [session_document(session) for session in found[:limit]]
        return document({"object": "list", "data": data, "has_more": len(found) > limit})

    async def one(self, request: Request) -> Response:
        """Serve GET /v1/sessions/{key}: one session."""
        session = await self._session(request)
        return document(session_document(session), session.id)

    async def messages(self, request: Request) -> Response:
        """Serve GET /v1/sessions/{key}/messages: one page; with `stream` the running answer, which ends with its
        turn."""
        session = await self._session(request)
        if flag(request, "stream"):
            return self._answering.stream(self._running(session))
        wanted = page_of(request)
        after = None if wanted.after is None else whole_number(wanted.after)
        if wanted.after is not None and after is None:
            raise no_such_item(wanted.after)
        found = await self._store.page(session.id, wanted.limit + 1, newest=wanted.newest, after=after)
        if found is None:
            raise no_such_item(wanted.after or "")
        return document(paged([stored_document(message) for message in found], wanted), session.id)

    async def _session(self, request: Request) -> SessionRecord:
        """Return the session that the key leads to; a session id is accepted as well. Raises a 404."""
        owner, text = caller_of(request).name, request.path_params["key"]
        route = await self._store.route(checked_key(text, owner).stored)
        session = await self._store.get_session(text if route is None else route.session_id)
        if session is None or (session.owner or "") != owner:
            raise missing(f"there is no session {text[:100]!r}", "key")
        return session

    async def _begin(self, message: ChatMessage) -> OpenAnswer:
        found = await self._face.receive(message)
        if isinstance(found, Notice):
            return self._noticed(found)
        form, turn = found.form, found.turn
        opened = OpenAnswer(
            turn.answer,
            partial(EventEncoder, form.events),
            form.session_id,
            turn,
            reply=lambda end: of_outcome(end.outcome) if end.refused else form.document(end),
        )
        self._kept.add(message.caller.name, opened)
        return opened

    def _noticed(self, said: Notice) -> OpenAnswer:
        """Return the reply of a command as an answer that is complete."""
        deps = self._face.chat_deps.sessions.deps
        fields = {
            "id": deps.ids.make("smsg"),
            "created_at": int(deps.wall()),
            "session_id": said.session_id,
            "status": "completed",
            "text": said.text,
            "items": list(said.items),
        }
        message = message_document(said.kind, fields)
        return replace(stored(message, said.session_id), receipt=message)

    def _running(self, session: SessionRecord) -> OpenAnswer:
        """Return the answer that the session gives now, from its beginning; one without events if there is none."""
        live = self._face.chat_deps.sessions.find(session.id)
        for turn in [] if live is None else live.turns:
            opened = self._kept.find(turn.answer.id, session.owner or "")
            if opened is not None:
                return opened
        nothing = MessageEvents("", session.id, (), lambda _: {})
        return OpenAnswer(AnswerStream.of([]), partial(EventEncoder, nothing), session.id)


def stored(message: JsonObject, session_id: str | None) -> OpenAnswer:
    """Return the answer that a message was."""
    return OpenAnswer(stored_message(message), partial(EventEncoder, stored_events(message)), session_id)


def number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """Return a whole number of the query. Raises a 400."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not least <= int(text) <= most:
        raise bad(f"{name} must be a number from {least} to {most}", name)
    return int(text)


def flag(request: Request, name: str) -> bool | None:
    """Return a yes or no of the query, None if it is absent. Raises a 400."""
    text = request.query_params.get(name)
    if text not in (None, "true", "false"):
        raise bad(f"{name} must be true or false", name)
    return None if text is None else text == "true"


def session_document(session: SessionRecord) -> JsonObject:
    """Return a session as the API shows it."""
    return {
        "object": "session",
        "id": session.id,
        "key": None if session.key is None else session.key.partition("/")[2],
        "platform": session.platform,
        "title": session.title,
        "parent_id": session.parent_id,
        "origin": session.origin,
        "model": session.model,
        "cwd": session.cwd,
        "created_at": int(session.created_at),
        "last_active_at": int(session.last_active_at),
        "ended_at": None if session.ended_at is None else int(session.ended_at),
        "end_reason": session.end_reason,
        "message_count": session.message_count,
    }


def stored_document(message: MessageRecord) -> JsonObject:
    """Return a stored message as the API shows it."""
    return {
        "object": "session.stored_message",
        "id": str(message.id),
        "role": message.role,
        "text": message.text,
        "items": list(message.items),
        "created_at": int(message.created_at),
    }
