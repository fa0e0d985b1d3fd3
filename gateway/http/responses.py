"""The routes of /v1/responses.

Rules:
- A request is checked completely before anything is stored or started.
- A response is read again as it was sent: from its answer while that is kept, else from what is stored.
"""

from dataclasses import replace
from functools import partial

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.answering import Answering, Exchange
from ostler.gateway.http.answers import caller_of, document, no_such_item, number, page_of, paged, wants_erasing
from ostler.gateway.http.body import ResponseBody, read_json, typed
from ostler.gateway.http.errors import missing
from ostler.gateway.http.request_preparer import RequestPreparer
from ostler.gateway.http.response_dialect import (
    ResponseForm,
    ended,
    public,
    record_of,
    stored_answer,
    stored_encoder,
    stored_response,
)
from ostler.gateway.http.streaming import KeptAnswers, OpenAnswer
from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.model.records import IdempotencyRecord, ResponseRecord
from ostler.gateway.turns.erasing import Eraser
from ostler.gateway.turns.sessions import Sessions


class ResponseRoutes:
    """The routes of /v1/responses. One per gateway."""

    def __init__(
        self, sessions: Sessions, preparer: RequestPreparer, kept: KeptAnswers, answering: Answering, eraser: Eraser
    ) -> None:
        self._sessions = sessions
        self._eraser = eraser
        self._preparer = preparer
        self._kept = kept
        self._answering = answering
        self._store = sessions.deps.store

    async def create(self, request: Request) -> Response:
        """Serve POST /v1/responses: answer as a document, as a stream, or in the background."""
        body = typed(await read_json(request), ResponseBody)
        self._preparer.check_counts(body)
        caller = caller_of(request)
        exchange = Exchange(
            partial(self._begin, body, caller),
            partial(self._again, caller),
            asks=self._preparer.asks(body),
            streams=bool(body.stream),
            background=bool(body.background),
        )
        return await self._answering.answer(request, exchange)

    async def retrieve(self, request: Request) -> Response:
        """Serve GET /v1/responses/{id}: the response, or the rest of its stream."""
        if request.query_params.get("stream", "").lower() in ("true", "1"):
            return await self._replay(request)
        record = await self._record(request)
        return document(public(record.body), record.session_id)

    async def delete(self, request: Request) -> Response:
        """Serve DELETE /v1/responses/{id}: stop the turn, delete the response, and erase its text on request."""
        response_id, owner = request.path_params["id"], caller_of(request).name
        await self._stop(response_id, owner)
        record = await self._store.get_response(response_id, owner=owner) if wants_erasing(request) else None
        if not await self._store.delete_response(response_id, owner=owner):
            raise missing(f"there is no response {response_id[:100]!r}", "response_id")
        if record is not None:
            await self._eraser.erase_unreachable(record.session_id)
        return document({"id": response_id, "object": "response", "deleted": True})

    async def cancel(self, request: Request) -> Response:
        """Serve POST /v1/responses/{id}/cancel: stop the turn and return the response."""
        await self._stop(request.path_params["id"], caller_of(request).name)
        record = await self._record(request)
        return document(public(record.body), record.session_id)

    async def input_items(self, request: Request) -> Response:
        """Serve GET /v1/responses/{id}/input_items: one page."""
        wanted, name, owner = page_of(request), request.path_params["id"], caller_of(request).name
        found = await self._store.input_items(
            name, wanted.limit + 1, newest=wanted.newest, after=wanted.after, owner=owner
        )
        if found is None:
            await self._record(request)
            raise no_such_item(wanted.after or "")
        return document(paged(found, wanted))

    async def _begin(self, body: ResponseBody, caller: Caller) -> OpenAnswer:
        self._sessions.check_open()
        prepared = await self._preparer.prepare(body, caller)
        deps, kept = self._sessions.deps, bool(body.stream or body.background)
        name = deps.ids.make("resp")
        form = ResponseForm(name, int(deps.wall()), prepared)
        stored = partial(stored_response, form, prepared, streams=kept)
        stream = self._preparer.answer(prepared, name, stored, record_of(form.head, prepared))
        turn = self._preparer.begin(prepared, stream)
        opened = OpenAnswer(stream, form.encoder, prepared.session_id, turn, kept, form.reply)
        self._kept.add(caller.name, opened)
        turn.receipt = bool(body.background)
        if body.background:
            stream.queue()
            opened.receipt = {**form.head, "status": "queued"}
            opened.record = record_of(opened.receipt, prepared)
        return opened

    def _again(self, caller: Caller, known: IdempotencyRecord) -> OpenAnswer:
        response_id = str(orjson.loads(known.body)["id"])
        opened = self._kept.find(response_id, caller.name)
        if opened is None or not opened.streams:
            text = f"the stream of this Idempotency-Key is not held any more; GET /v1/responses/{response_id} instead"
            raise ApiError(409, text, param="Idempotency-Key", code="stream_gone")
        return opened

    async def _replay(self, request: Request) -> Response:
        """Return the rest of a stream: of a kept answer, or of one that is made again from the stored response."""
        given = request.query_params.get("starting_after")
        after = -1 if given in (None, "-1") else number(given)
        if after is None:
            raise bad("starting_after must be a sequence number", "starting_after")
        opened = self._kept.find(request.path_params["id"], caller_of(request).name)
        if opened is None or not opened.streams:
            record = await self._record(request)
            if not ended(record.body):
                text = f"response {record.id!r} is being made and is not streamed; ask again, without stream=true"
                raise ApiError(409, text, param="stream", code="not_streamed")
            opened = OpenAnswer(stored_answer(record.body), partial(stored_encoder, record.body))
        return self._answering.stream(replace(opened, session_id=None), after + 1)

    async def _stop(self, response_id: str, owner: str) -> None:
        """Stop the turn that makes a response, and wait for its end."""
        opened = self._kept.find(response_id, owner)
        turn = None if opened is None else opened.turn
        if turn is not None:
            turn.stop(StopCause.CLIENT)
            await turn.over.wait()

    async def _record(self, request: Request) -> ResponseRecord:
        response_id = request.path_params["id"]
        record = await self._store.get_response(response_id, owner=caller_of(request).name)
        if record is None:
            raise missing(f"there is no response {response_id[:100]!r}", "response_id")
        return record
