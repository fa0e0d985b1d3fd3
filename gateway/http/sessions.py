"""The routes of /v1/sessions: a chat surface for programs, and reading of what was said.

Rules:
- The key in the path is the caller's own name for a conversation. Different callers never share one, even with the same
  key. A session of another caller is a 404, as if it did not exist.
- Reading never begins, resets or recovers a session.
"""

from functools import partial
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.chat.answer import ChatAnswer
from ostler.gateway.chat.commands.registry import CommandKind
from ostler.gateway.chat.frontend import ChatFrontend
from ostler.gateway.chat.message import AnswerStarted, ChatMessage, Notice, NoticeCallback
from ostler.gateway.chat.session_keys import checked_key
from ostler.gateway.http.answers import (
    SESSION_HEADER,
    caller_of,
    document,
    no_such_item,
    page_of,
    paged,
    place_of,
    stays,
)
from ostler.gateway.http.answers import number as whole_number
from ostler.gateway.http.body import read_json
from ostler.gateway.http.errors import invalid, missing, of_outcome, reply
from ostler.gateway.http.feed import Feed
from ostler.gateway.http.idempotency import Held, IdempotentAnswers, Repeat, is_answer, session_of, whole
from ostler.gateway.http.session_feed import Answers, SessionFeed, message_document, replayed
from ostler.gateway.http.streaming import EventStream
from ostler.gateway.model.api_error import bad
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import IdempotencyRecord, MessageRecord, SessionQuery, SessionRecord
from ostler.gateway.turns.turn import Turn
from ostler.wire.json import JsonObject

LISTED = 100


class NewMessageBody(Struct, kw_only=True):
    """The body of POST /v1/sessions/{key}/messages."""

    text: str = ""
    attachments: Annotated[list[dict[str, Any]], Meta(max_length=32)] | None = None
    stream: bool | None = None


class SessionRoutes:
    """The routes of /v1/sessions. One per gateway."""

    def __init__(self, face: ChatFrontend, repeats: IdempotentAnswers) -> None:
        self._face = face
        self._repeats = repeats
        self._answers = Answers()
        self._deps = face.chat_deps.sessions.deps
        self._store = self._deps.store

    async def say(self, request: Request) -> Response:
        """Serve POST /v1/sessions/{key}/messages: a message or a slash command."""
        caller = caller_of(request)
        key = checked_key(request.path_params["key"], caller.name)
        body = message_body(await read_json(request))
        staying = stays(request, self._deps.settings.on_disconnect)
        if self._face.asks(body.text):
            place_of(request).take()
        repeat = await self._repeats.read(request, caller.name)
        known = None if repeat is None else await self._repeats.begin(repeat, request)
        if known is not None:
            return self._again(known, stream=bool(body.stream))
        listener = SessionFeed(Feed() if body.stream else None)
        kept = None if repeat is None else partial(self._kept, repeat)
        message = ChatMessage(key, body.text, tuple(body.attachments or ()), caller, kept)
        with self._repeats.beginning(repeat):
            exchange = await self._face.receive(message, self._listener(listener, repeat))
            if isinstance(exchange, Notice):
                return await self._said(exchange, listener, repeat)
        turn = None if staying else exchange.turn
        if listener.feed is None:
            await self._repeats.audience(repeat).attend(request, exchange.answer.done, turn)
            return self._whole(exchange)
        self._answers.begin(exchange.session_id, listener.feed)
        if repeat is not None:
            self._repeats.hold(repeat, listener.feed, exchange.session_id, exchange.turn)
        return self._stream(listener.feed, exchange.session_id, turn)

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
            return self._stream(self._answers.running(session.id), session.id, None)
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

    def _listener(self, listener: SessionFeed, repeat: Repeat | None) -> NoticeCallback:
        def tell(what: str, fields: JsonObject) -> None:
            ends = what in set(TurnStatus)
            listener.tell(what, message_document(CommandKind.ANSWER, fields) if ends else fields)
            if ends and listener.feed is not None:
                listener.feed.close()
                self._answers.end(fields["session_id"], listener.feed)
            if ends and repeat is not None:
                self._repeats.end(repeat)

        return tell

    async def _said(self, said: Notice, listener: SessionFeed, repeat: Repeat | None) -> Response:
        fields = {
            "id": self._deps.ids.make("smsg"),
            "created_at": int(self._deps.wall()),
            "session_id": said.session_id,
            "status": "completed",
            "text": said.text,
            "items": list(said.items),
        }
        message = message_document(said.kind, fields)
        if repeat is not None:
            await self._store.remember(repeat.record(message, said.session_id, self._deps.wall()))
            self._repeats.end(repeat)
        if listener.feed is None:
            return document(message, said.session_id)
        listener.tell("completed", message)
        listener.feed.close()
        return self._stream(listener.feed, said.session_id, None)

    def _kept(self, repeat: Repeat, answer: ChatAnswer) -> IdempotencyRecord | None:
        """Return the record for a repeated message; None if the turn gave no answer."""
        if not is_answer(answer.outcome or TurnOutcome(TurnStatus.FAILED), agent_spoke=answer.agent_spoke):
            return None
        document = message_document(CommandKind.ANSWER, answer.document())
        return repeat.record(document, answer.session_id, self._deps.wall())

    def _again(self, known: IdempotencyRecord | Held, *, stream: bool) -> Response:
        """Return the first answer again: its stream while it is written, or the stored answer."""
        if isinstance(known, Held):
            return self._stream(known.feed, known.session_id, None)
        if not stream:
            return whole(known)
        feed = replayed(orjson.loads(known.body))
        return self._stream(feed, session_of(known), None)

    def _whole(self, asked: AnswerStarted) -> Response:
        answer = asked.answer
        outcome = answer.outcome or TurnOutcome(TurnStatus.FAILED)
        if outcome.status is TurnStatus.FAILED and not answer.agent_spoke:
            return reply(of_outcome(outcome), {SESSION_HEADER: asked.session_id})
        return document(message_document(CommandKind.ANSWER, answer.document()), asked.session_id)

    def _stream(self, feed: Feed, session_id: str | None, turn: Turn | None) -> Response:
        return EventStream(feed, 0, self._deps.settings.keepalive, session_id=session_id, turn=turn)


def message_body(given: Any) -> NewMessageBody:
    """Return the typed request. Raises a 400 that names the wrong field."""
    try:
        return msgspec.convert(given, NewMessageBody)
    except msgspec.ValidationError as error:
        raise invalid(error) from error


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
