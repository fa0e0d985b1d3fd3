"""POST /v1/chat/completions: the same turns, for clients that send the whole conversation each time."""

from functools import partial

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.http.answers import SESSION_HEADER, caller_of, document, place_of, stays
from ostler.gateway.http.body import read_json
from ostler.gateway.http.chat_body import ChatBody, as_response_body, chat_body
from ostler.gateway.http.chat_writer import ChatWriter, replayed
from ostler.gateway.http.errors import of_outcome, reply
from ostler.gateway.http.feed import Feed
from ostler.gateway.http.idempotency import NAMING, Held, IdempotentAnswers, Repeat, session_of, whole
from ostler.gateway.http.items import check_count
from ostler.gateway.http.request_preparer import Prepared, RequestPreparer
from ostler.gateway.http.streaming import EventStream
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import IdempotencyRecord
from ostler.gateway.turns.sessions import Sessions
from ostler.gateway.turns.turn import Turn


class ChatCompletions:
    """The route of /v1/chat/completions. One per gateway."""

    def __init__(self, sessions: Sessions, preparer: RequestPreparer, repeats: IdempotentAnswers) -> None:
        self._sessions = sessions
        self._preparer = preparer
        self._repeats = repeats
        self._settings = sessions.deps.settings

    async def create(self, request: Request) -> Response:
        """Serve POST /v1/chat/completions: answer one turn, whole or as a stream."""
        body = chat_body(await read_json(request))
        check_count(body.messages, self._settings.items_max, "messages")
        caller = caller_of(request)
        staying = stays(request, self._settings.on_disconnect)
        named = as_response_body(body, request.headers.get(NAMING))
        if self._preparer.asks(named):
            place_of(request).take()
        repeat = await self._repeats.read(request, caller.name)
        known = None if repeat is None else await self._repeats.begin(repeat, request)
        if known is not None:
            return self._again(known, body)
        with self._repeats.beginning(repeat):
            self._sessions.check_open()
            prepared = await self._preparer.prepare(named, caller, resends=True)
            writer = self._writer(prepared, body, repeat)
            turn = self._preparer.begin(prepared, writer.id, writer)
        if writer.feed is not None:
            if repeat is not None:
                self._repeats.hold(repeat, writer.feed, prepared.session_id, turn)
            return self._stream(writer.feed, prepared.session_id, None if staying else turn)
        await self._repeats.audience(repeat).attend(request, writer.done, None if staying else turn)
        outcome = writer.outcome or TurnOutcome(TurnStatus.FAILED)
        if outcome.status is TurnStatus.FAILED:
            return reply(of_outcome(outcome), {SESSION_HEADER: prepared.session_id})
        return document(writer.document(), prepared.session_id)

    def _again(self, known: IdempotencyRecord | Held, body: ChatBody) -> Response:
        """Return the first answer again: its stream while it is written, or the stored answer."""
        if isinstance(known, Held):
            return self._stream(known.feed, known.session_id, None)
        if not body.stream:
            return whole(known)
        told = replayed(known.status, orjson.loads(known.body), include_usage=wants_usage(body))
        return self._stream(told, session_of(known), None)

    def _stream(self, feed: Feed, session_id: str | None, turn: Turn | None) -> Response:
        return EventStream(feed, 0, self._settings.keepalive, session_id=session_id, turn=turn)

    def _writer(self, prepared: Prepared, body: ChatBody, repeat: Repeat | None) -> ChatWriter:
        deps, session_id = self._sessions.deps, prepared.session_id
        answer_id = deps.ids.make("chatcmpl")
        return ChatWriter(
            answer_id,
            int(deps.wall()),
            prepared.model,
            session_id=session_id,
            read=prepared.size,
            feed=Feed() if body.stream else None,
            include_usage=wants_usage(body),
            said=lambda text: self._preparer.learn(prepared, answer_id, text),
            answer=None
            if repeat is None
            else lambda status, kept: repeat.record(kept, session_id, deps.wall(), status),
            ended=None if repeat is None else partial(self._repeats.end, repeat),
        )


def wants_usage(body: ChatBody) -> bool:
    """Whether a stream must report token usage."""
    return body.stream_options is not None and body.stream_options.include_usage
