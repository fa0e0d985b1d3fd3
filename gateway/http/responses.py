"""The routes of /v1/responses.

Rules:
- A request is checked completely before anything is stored or started.
- A route waits for the writer of its response, never for the agent: a client that disconnects or reconnects changes the
  turn only as the disconnect policy says.
"""

from dataclasses import dataclass, field
from functools import partial

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.answers import (
    SESSION_HEADER,
    caller_of,
    document,
    no_such_item,
    number,
    page_of,
    paged,
    place_of,
    stays,
    wants_erasing,
)
from ostler.gateway.http.body import ResponseBody, read_json, response_body
from ostler.gateway.http.errors import missing, of_outcome, reply
from ostler.gateway.http.feed import Feed, Feeds
from ostler.gateway.http.idempotency import Held, IdempotentAnswers, Repeat, session_of, whole
from ostler.gateway.http.replay import ended, public, replay
from ostler.gateway.http.request_preparer import RequestPreparer
from ostler.gateway.http.streaming import EventStream
from ostler.gateway.http.writer import ResponseWriter
from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.model.errors import GatewayError
from ostler.gateway.model.outcome import StopCause, TurnStatus
from ostler.gateway.model.records import IdempotencyRecord, ResponseRecord
from ostler.gateway.turns.erasing import Eraser
from ostler.gateway.turns.sessions import Sessions
from ostler.gateway.turns.turn import Turn


@dataclass
class Live:
    """Turns of responses that are not complete, by response id."""

    turns: dict[str, tuple[str, Turn]] = field(default_factory=dict)

    def find(self, response_id: str, owner: str) -> Turn | None:
        """Return the turn of a response of this owner, or None."""
        entry = self.turns.get(response_id)
        return entry[1] if entry is not None and entry[0] == owner else None


class ResponseRoutes:
    """The routes of /v1/responses. One per gateway."""

    def __init__(
        self, sessions: Sessions, preparer: RequestPreparer, feeds: Feeds, repeats: IdempotentAnswers, eraser: Eraser
    ) -> None:
        self._sessions = sessions
        self._eraser = eraser
        self._preparer = preparer
        self._feeds = feeds
        self._repeats = repeats
        self._live = Live()
        self._store = sessions.deps.store
        self._settings = sessions.deps.settings

    async def create(self, request: Request) -> Response:
        """Serve POST /v1/responses: answer as a document, as a stream, or in the background."""
        caller = caller_of(request)
        body = response_body(await read_json(request))
        self._preparer.check_counts(body)
        if self._preparer.asks(body):
            place_of(request).take()
        repeat = await self._repeats.read(request, caller.name)
        known = None if repeat is None else await self._repeats.begin(repeat, request)
        if isinstance(known, Held):
            return self._stream(known.feed, 0, known.session_id, None)
        if known is not None:
            return self._again(known, caller) if body.stream else whole(known)
        with self._repeats.beginning(repeat):
            return await self._start(request, body, caller, repeat)

    async def retrieve(self, request: Request) -> Response:
        """Serve GET /v1/responses/{id}: the response, or the rest of its stream."""
        if request.query_params.get("stream", "").lower() in ("true", "1"):
            return await self._replay(request)
        record = await self._record(request)
        return document(public(record.body), record.session_id)

    async def delete(self, request: Request) -> Response:
        """Serve DELETE /v1/responses/{id}: stop the turn, delete the response, and erase its text on request."""
        response_id, owner = request.path_params["id"], caller_of(request).name
        turn = self._live.find(response_id, owner)
        if turn is not None:
            turn.stop(StopCause.CLIENT)
            await turn.over.wait()
        record = await self._store.get_response(response_id, owner=owner) if wants_erasing(request) else None
        if not await self._store.delete_response(response_id, owner=owner):
            raise missing(f"there is no response {response_id[:100]!r}", "response_id")
        if record is not None:
            await self._eraser.erase_unreachable(record.session_id)
        return document({"id": response_id, "object": "response", "deleted": True})

    async def cancel(self, request: Request) -> Response:
        """Serve POST /v1/responses/{id}/cancel: stop the turn and return the response."""
        turn = self._live.find(request.path_params["id"], caller_of(request).name)
        if turn is not None:
            turn.stop(StopCause.CLIENT)
            await turn.over.wait()
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

    # --- starting ---

    async def _start(self, request: Request, body: ResponseBody, caller: Caller, repeat: Repeat | None) -> Response:
        self._sessions.check_open()
        staying = bool(body.background) or stays(request, self._settings.on_disconnect)
        prepared = await self._preparer.prepare(body, caller)
        feed = Feed() if body.stream or body.background else None
        writer = self._preparer.writer(
            prepared, feed, None if body.background else repeat, partial(self._ended, repeat)
        )
        turn = self._preparer.begin(prepared, writer.id, writer)
        turn.receipt = bool(body.background)
        self._live.turns[writer.id] = (caller.name, turn)
        if feed is None:
            audience = self._repeats.audience(repeat)
            await audience.attend(request, writer.done, None if staying else turn)
            return self._whole(writer)
        self._feeds.add(writer.id, caller.name, feed)
        if body.background:
            try:
                promised = await self._promise(writer, repeat)
            except GatewayError:
                turn.stop(StopCause.CLIENT)  # no client was told of it
                raise
            if not body.stream:
                return promised
        elif repeat is not None:
            self._repeats.hold(repeat, feed, writer.session_id, turn)
        return self._stream(feed, 0, writer.session_id, None if staying else turn)

    async def _promise(self, writer: ResponseWriter, repeat: Repeat | None) -> Response:
        """Store the receipt of a background response before it is given, also for a repeated request.

        Called after `begin`, which may still refuse, and before the turn's task has run, so the receipt is written
        first.
        """
        writer.queue()
        record = writer.record()
        answer = document(writer.document, writer.session_id)
        now = self._sessions.deps.wall()
        known = None if repeat is None else repeat.record(writer.document, writer.session_id, now)
        if record is not None:
            await self._store.save_response(record)
        if repeat is not None and known is not None:
            # Only once the receipt is stored: else a repeated request would get the receipt of a turn that never ran.
            await self._store.remember(known)
            self._repeats.end(repeat)
        return answer

    def _again(self, known: IdempotencyRecord, caller: Caller) -> Response:
        """Return the stream of the first request with this key, from its first event."""
        response_id = str(orjson.loads(known.body)["id"])
        feed = self._feeds.find(response_id, caller.name)
        if feed is None:
            text = f"the stream of this Idempotency-Key is not held any more; GET /v1/responses/{response_id} instead"
            raise ApiError(409, text, param="Idempotency-Key", code="stream_gone")
        return self._stream(feed, 0, session_of(known), None)

    def _whole(self, writer: ResponseWriter) -> Response:
        """Return the complete response, or the error of a failed turn whose agent sent no event."""
        outcome = writer.outcome
        if outcome is not None and outcome.status is TurnStatus.FAILED and not writer.agent_spoke:
            return reply(of_outcome(outcome), {SESSION_HEADER: writer.session_id})
        return document(writer.document, writer.session_id)

    def _stream(self, feed: Feed, start: int, session_id: str | None, turn: Turn | None) -> Response:
        return EventStream(feed, start, self._settings.keepalive, session_id=session_id, turn=turn)

    async def _replay(self, request: Request) -> Response:
        """Return the rest of a stream: from its feed, or made again from the stored response."""
        given = request.query_params.get("starting_after")
        after = -1 if given in (None, "-1") else number(given)
        if after is None:
            raise bad("starting_after must be a sequence number", "starting_after")
        start = after + 1
        feed = self._feeds.find(request.path_params["id"], caller_of(request).name)
        if feed is None:
            record = await self._record(request)
            if not ended(record.body):
                text = f"response {record.id!r} is being made and is not streamed; ask again, without stream=true"
                raise ApiError(409, text, param="stream", code="not_streamed")
            feed = replay(record.body, start)
        return self._stream(feed, start, None, None)

    # --- small things ---

    def _ended(self, repeat: Repeat | None, response_id: str) -> None:
        self._live.turns.pop(response_id, None)
        self._feeds.ended(response_id)
        if repeat is not None:
            self._repeats.end(repeat)

    async def _record(self, request: Request) -> ResponseRecord:
        response_id = request.path_params["id"]
        record = await self._store.get_response(response_id, owner=caller_of(request).name)
        if record is None:
            raise missing(f"there is no response {response_id[:100]!r}", "response_id")
        return record
