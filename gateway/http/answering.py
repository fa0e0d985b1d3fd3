"""The one way from a request to its answer, for every dialect.

Rules:
- The order is: admission, the idempotency key, the checks of the dialect and the begin of the turn, then the answer as
  a receipt, as a whole or as a stream. A refusal before the begin stores and starts nothing, and frees the key.
- A route waits for the answer, never for the agent: a client that disconnects or reconnects changes the turn only as
  the disconnect policy of the first request says.
- A dialect contributes an `Exchange`; what is sent while a client waits is decided in `streaming.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.http.answers import SESSION_HEADER, caller_of, document, place_of
from ostler.gateway.http.errors import envelope, reply
from ostler.gateway.http.idempotency import IdempotentAnswers, Repeat, is_answer, whole
from ostler.gateway.http.streaming import EventStream, OpenAnswer
from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.model.errors import GatewayError
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.model.records import IdempotencyRecord
from ostler.gateway.turns.answer import Ended
from ostler.gateway.turns.deps import SessionDeps

POLICY_HEADER = "x-ostler-on-disconnect"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request in its dialect."""

    begin: Callable[[], Awaitable[OpenAnswer]]
    """Checks the request, and begins its turn. Nothing may await between the begin and the return."""
    again: Callable[[IdempotencyRecord], OpenAnswer]
    """Returns the stream of the first answer to this request."""
    asks: bool
    """Whether it may prompt an agent, and so counts against the concurrency limit of its key."""
    streams: bool
    """Whether the answer is a stream."""
    background: bool = False
    """Whether the turn goes on without a client, under any policy."""


@dataclass(frozen=True, slots=True)
class Answering:
    """Answers requests. One per gateway."""

    deps: SessionDeps
    repeats: IdempotentAnswers

    async def answer(self, request: Request, asked: Exchange) -> Response:
        """Return the answer to a request: its beginning if it streams, a receipt, or all of it."""
        if asked.asks:
            place_of(request).take()
        repeat = await self.repeats.read(request, caller_of(request).name)
        known = None if repeat is None else await self.repeats.begin(repeat, request)
        if isinstance(known, OpenAnswer):
            return self.stream(known)
        if known is not None:
            return self.stream(asked.again(known)) if asked.streams else whole(known)
        with self.repeats.beginning(repeat):
            staying = asked.background or stays(request, self.deps.settings.on_disconnect)
            opened = await asked.begin()
            done = self._attach(opened, repeat, whole=not asked.streams, staying=staying)
            if opened.receipt is not None:
                await self._promise(opened, repeat)
        if asked.streams:
            if opened.receipt is None and repeat is not None:
                self.repeats.hold(repeat, opened)
            return self.stream(opened)
        if opened.receipt is not None:
            return document(opened.receipt, opened.session_id)
        await opened.audience.attend(request, done)
        return self._whole(opened)

    def stream(self, opened: OpenAnswer, start: int = 0) -> Response:
        """Return the answer as a stream, from this frame on."""
        return EventStream(opened, start, self.deps.settings.keepalive)

    def _attach(self, opened: OpenAnswer, repeat: Repeat | None, *, whole: bool, staying: bool) -> asyncio.Event:
        """Follow the answer: return an event that is set at its end, which also frees the key."""
        done, ends = asyncio.Event(), opened.stream.on_end
        if repeat is not None:
            if opened.receipt is None:
                opened.stream.keep = partial(self._kept, opened, repeat)
            if whole:
                opened.audience = self.repeats.audience(repeat)
            ends.append(lambda _end: self.repeats.end(repeat))
        if not staying:
            opened.stop_if_deserted()
        ends.append(lambda _end: done.set())
        return done

    async def _promise(self, opened: OpenAnswer, repeat: Repeat | None) -> None:
        """Store the receipt before it is given, also for a repeated request.

        Called before the turn's task has run, so the receipt is written first. The key is freed only once it is stored:
        else a repeated request would get the receipt of a turn that never ran.
        """
        store, receipt = self.deps.store, opened.receipt or {}
        try:
            if opened.record is not None:
                await store.save_response(opened.record)
            if repeat is not None:
                await store.remember(repeat.record(receipt, opened.session_id, self.deps.wall()))
                self.repeats.end(repeat)
        except GatewayError:
            if opened.turn is not None:
                opened.turn.stop(StopCause.CLIENT)  # no client was told of it
            raise

    def _kept(self, opened: OpenAnswer, repeat: Repeat, end: Ended) -> IdempotencyRecord | None:
        """Return the record for a repeated request; None if the turn gave no answer."""
        if opened.reply is None or not is_answer(end.outcome, agent_spoke=end.agent_spoke):
            return None
        found, now = opened.reply(end), self.deps.wall()
        if isinstance(found, ApiError):
            return repeat.record(envelope(found), opened.session_id, now, found.status)
        return repeat.record(found, opened.session_id, now)

    @staticmethod
    def _whole(opened: OpenAnswer) -> Response:
        end, session_id = opened.stream.end, opened.session_id
        if end is None or opened.reply is None or session_id is None:
            raise RuntimeError("an answer has ended without an end")
        found = opened.reply(end)
        return (
            reply(found, {SESSION_HEADER: session_id}) if isinstance(found, ApiError) else document(found, session_id)
        )


def stays(request: Request, default: str) -> bool:
    """Whether the turn goes on when the client of this request disconnects. Raises a 400 for an unknown policy."""
    policy = request.headers.get(POLICY_HEADER, default)
    if policy not in ("cancel", "continue"):
        raise bad(f"{POLICY_HEADER} must be cancel or continue", POLICY_HEADER)
    return policy == "continue"
