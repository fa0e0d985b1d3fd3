"""POST /v1/chat/completions: the same turns, for clients that send the whole conversation each time."""

from functools import partial

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.answering import Answering, Exchange
from ostler.gateway.http.answers import caller_of
from ostler.gateway.http.body import ResponseBody, read_json
from ostler.gateway.http.chat_body import as_response_body, chat_body
from ostler.gateway.http.chat_dialect import CompletionForm, stored_completion, stored_encoder, stored_items
from ostler.gateway.http.idempotency import NAMING, session_of
from ostler.gateway.http.items import check_count
from ostler.gateway.http.request_preparer import RequestPreparer
from ostler.gateway.http.streaming import OpenAnswer
from ostler.gateway.model.records import IdempotencyRecord
from ostler.gateway.turns.sessions import Sessions


class ChatCompletions:
    """The route of /v1/chat/completions. One per gateway."""

    def __init__(self, sessions: Sessions, preparer: RequestPreparer, answering: Answering) -> None:
        self._sessions = sessions
        self._preparer = preparer
        self._answering = answering

    async def create(self, request: Request) -> Response:
        """Serve POST /v1/chat/completions: answer one turn, whole or as a stream."""
        body = chat_body(await read_json(request))
        check_count(body.messages, self._sessions.deps.settings.items_max, "messages")
        named = as_response_body(body, request.headers.get(NAMING))
        usage = body.stream_options is not None and body.stream_options.include_usage
        exchange = Exchange(
            partial(self._begin, named, caller_of(request), include_usage=usage),
            partial(again, include_usage=usage),
            asks=self._preparer.asks(named),
            streams=bool(body.stream),
        )
        return await self._answering.answer(request, exchange)

    async def _begin(self, body: ResponseBody, caller: Caller, *, include_usage: bool) -> OpenAnswer:
        self._sessions.check_open()
        prepared = await self._preparer.prepare(body, caller, resends=True)
        deps = self._sessions.deps
        name, now = deps.ids.make("chatcmpl"), int(deps.wall())
        form = CompletionForm(name, now, prepared.model, read=prepared.ask.size, include_usage=include_usage)
        stream = self._preparer.answer(prepared, name, stored_items)
        turn = self._preparer.begin(prepared, stream)
        return OpenAnswer(stream, form.encoder, prepared.session_id, turn, reply=form.reply)


def again(known: IdempotencyRecord, *, include_usage: bool) -> OpenAnswer:
    """Return the answer that a stored completion was."""
    document = orjson.loads(known.body)
    encoder = partial(stored_encoder, document, include_usage=include_usage)
    return OpenAnswer(stored_completion(document), encoder, session_of(known))
