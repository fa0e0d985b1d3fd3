"""POST /v1/chat/completions: the same turns, for clients that bring the whole conversation along each time."""

from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.api.answers import SESSION_HEADER, caller_of, document, stays
from ostler.gateway.api.body import read_json
from ostler.gateway.api.chat_body import ChatBody, as_response_body, chat_body
from ostler.gateway.api.chat_writer import ChatWriter
from ostler.gateway.api.errors import of_outcome, reply
from ostler.gateway.api.feed import Feed
from ostler.gateway.api.intake import Intake, Prepared
from ostler.gateway.api.presence import until_gone
from ostler.gateway.api.streaming import EventStream
from ostler.gateway.sessions.outcome import Outcome, Status
from ostler.gateway.sessions.sessions import Sessions

NAME_HEADER = "x-ostler-session"


class Chat:
    """One per gateway."""

    def __init__(self, sessions: Sessions, intake: Intake) -> None:
        self._sessions = sessions
        self._intake = intake
        self._settings = sessions.house.settings

    async def create(self, request: Request) -> Response:
        """POST /v1/chat/completions"""
        self._sessions.check_open()
        body = chat_body(await read_json(request))
        staying = stays(request, self._settings.on_disconnect)
        named = as_response_body(body, request.headers.get(NAME_HEADER))
        prepared = await self._intake.prepare(named, caller_of(request), resends=True)
        writer = self._writer(prepared, body)
        turn = self._intake.begin(prepared, writer.id, writer)
        if writer.feed is not None:
            leaving = None if staying else turn
            return EventStream(writer.feed, 0, self._settings.keepalive, session_id=prepared.session_id, turn=leaving)
        await until_gone(request, writer.done, None if staying else turn)
        outcome = writer.outcome or Outcome(Status.FAILED)
        if outcome.status is Status.FAILED:
            return reply(of_outcome(outcome), {SESSION_HEADER: prepared.session_id})
        return document(writer.document(), prepared.session_id)

    def _writer(self, prepared: Prepared, body: ChatBody) -> ChatWriter:
        house = self._sessions.house
        return ChatWriter(
            house.ids.make("chatcmpl"),
            int(house.wall()),
            prepared.model,
            session_id=prepared.session_id,
            read=prepared.size,
            feed=Feed() if body.stream else None,
            include_usage=body.stream_options is not None and body.stream_options.include_usage,
            said=lambda text: self._intake.learn(prepared, text),
        )
