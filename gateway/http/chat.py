"""POST /v1/chat/completions: the same turns, for clients that send the whole conversation each time."""

from dataclasses import dataclass
from functools import partial

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.answering import Answering
from ostler.gateway.http.answers import caller_of
from ostler.gateway.http.body import ResponseBody, read_json
from ostler.gateway.http.chat_body import ChatBody, as_response_body, chat_body
from ostler.gateway.http.chat_dialect import CompletionForm, stored_completion, stored_encoder
from ostler.gateway.http.idempotency import NAMING, session_of
from ostler.gateway.http.items import check_count
from ostler.gateway.http.request_preparer import RequestPreparer
from ostler.gateway.http.streaming import OpenAnswer
from ostler.gateway.model.records import IdempotencyRecord
from ostler.gateway.turns.sessions import Sessions


@dataclass(frozen=True, slots=True)
class ChatExchange:
    """One POST /v1/chat/completions as an `Exchange`."""

    sessions: Sessions
    preparer: RequestPreparer
    body: ChatBody
    named: ResponseBody
    """The same request in the form of a response."""
    caller: Caller

    background = False

    @property
    def asks(self) -> bool:
        return self.preparer.asks(self.named)

    @property
    def streams(self) -> bool:
        return bool(self.body.stream)

    @property
    def include_usage(self) -> bool:
        """Whether a stream must report token usage."""
        return self.body.stream_options is not None and self.body.stream_options.include_usage

    async def begin(self) -> OpenAnswer:
        self.sessions.check_open()
        prepared = await self.preparer.prepare(self.named, self.caller, resends=True)
        deps = self.sessions.deps
        name, now = deps.ids.make("chatcmpl"), int(deps.wall())
        form = CompletionForm(name, now, prepared.model, read=prepared.ask.size, include_usage=self.include_usage)
        stream = self.preparer.answer(prepared, name, form)
        turn = self.preparer.begin(prepared, stream)
        return OpenAnswer(stream, form.encoder, prepared.session_id, turn, form.reply)

    def again(self, known: IdempotencyRecord) -> OpenAnswer:
        document = orjson.loads(known.body)
        encoder = partial(stored_encoder, document, include_usage=self.include_usage)
        return OpenAnswer(stored_completion(document), encoder, session_of(known))


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
        exchange = ChatExchange(self._sessions, self._preparer, body, named, caller_of(request))
        return await self._answering.answer(request, exchange)
