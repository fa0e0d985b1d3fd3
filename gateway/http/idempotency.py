"""`Idempotency-Key`: a request that is sent again gets the first answer again, and prompts no agent a second time.

Rules:
- The answer is stored in the same step as its turn. If the turn failed or stopped before its agent sent an event (a
  full pool, a failed start, a stop in the queue), nothing is stored and a repeated request starts a new turn. Once the
  agent has sent an event it may have acted, so the result is the answer, even if it was cut off. The answer of a
  background response is its receipt, stored when the receipt is given.
- The same key with another request (another body, path or session) is an error of the client and gets 422.
- If two requests with one key run at once, the second waits for the first, or reads its stream too. The turn goes on
  while either client is connected.
"""

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ostler.gateway.http.answers import SESSION_HEADER
from ostler.gateway.http.streaming import Audience, OpenAnswer
from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import IdempotencyRecord
from ostler.gateway.model.store import Store
from ostler.wire.json import JsonObject

HEADER = "idempotency-key"
NAMING = "x-ostler-session"
"""The header that names the conversation of a chat completion; it is part of the request's fingerprint."""
KEPT = 300.0
LONGEST = 256


@dataclass(frozen=True, slots=True)
class Repeat:
    """The key of one request, and the fingerprint of what it was used for."""

    key: str
    owner: str
    fingerprint: str

    def record(self, document: JsonObject, session_id: str | None, now: float, status: int = 200) -> IdempotencyRecord:
        """Return the answer as it is stored."""
        headers = () if session_id is None else ((SESSION_HEADER, session_id),)
        return IdempotencyRecord(
            self.key, self.owner, self.fingerprint, status, headers, orjson.dumps(document), now + KEPT
        )


@dataclass(eq=False, slots=True)
class RunningAnswer:
    """A first request with its key, while it runs."""

    repeat: Repeat
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the answer is known to be a stream, or the request is over."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    held: OpenAnswer | None = None
    """The stream that is being written for this key."""
    audience: Audience = field(default_factory=Audience)


class IdempotentAnswers:
    """The answers of repeated requests, by owner and key."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: dict[tuple[str, str], RunningAnswer] = {}

    async def read(self, request: Request, owner: str) -> Repeat | None:
        """Return the key of a request with its fingerprint; None if it has no key. Raises a 400."""
        key = request.headers.get(HEADER)
        if key is None:
            return None
        if not 1 <= len(key) <= LONGEST or not key.isprintable():
            raise bad(f"Idempotency-Key must have 1 to {LONGEST} printable characters", "Idempotency-Key")
        asked = [request.url.path, request.headers.get(NAMING), hashlib.sha256(await request.body()).hexdigest()]
        return Repeat(key, owner, hashlib.sha256(orjson.dumps(asked)).hexdigest())

    async def begin(self, repeat: Repeat, request: Request) -> IdempotencyRecord | OpenAnswer | None:
        """Return the first answer or its stream. None: this is the first request, and the caller must call `end`."""
        name = (repeat.owner, repeat.key)
        while (running := self._running.get(name)) is not None:
            check_same(running.repeat.fingerprint, repeat)
            held = running.held
            if held is not None and held.turn is not None and held.turn.stopped is None:
                return held
            # A stopped stream is awaited to its end: a new client need not share the end of the one that left.
            if not await running.audience.attend(request, running.news if held is None else running.over):
                raise ClientDisconnect  # if the first request stored no answer, none is made without a client
        self._running[name] = RunningAnswer(repeat)
        try:
            found = await self._store.recall(repeat.key, owner=repeat.owner)
            if found is not None:
                check_same(found.fingerprint, repeat)
        except BaseException:
            self.end(repeat)
            raise
        if found is not None:
            self.end(repeat)
        return found

    def hold(self, repeat: Repeat, opened: OpenAnswer) -> None:
        """The answer is a stream: requests with this key read it too until its end."""
        running = self._running.get((repeat.owner, repeat.key))
        if running is not None:
            running.held = opened
            running.news.set()

    def audience(self, repeat: Repeat) -> Audience:
        """Return the clients that wait for the answer of this first request, its own client included."""
        running = self._running.get((repeat.owner, repeat.key))
        return Audience() if running is None or running.repeat is not repeat else running.audience

    def end(self, repeat: Repeat) -> None:
        """End the first request, with or without an answer. Idempotent: the key may belong to another request by
        now."""
        name = (repeat.owner, repeat.key)
        running = self._running.get(name)
        if running is not None and running.repeat is repeat:
            del self._running[name]
            running.news.set()
            running.over.set()

    @contextmanager
    def beginning(self, repeat: Repeat | None) -> Iterator[None]:
        """Free the key if the block fails before a turn exists. After that, the end of the turn frees it."""
        try:
            yield
        except BaseException:
            if repeat is not None:
                self.end(repeat)
            raise


def check_same(fingerprint: str, repeat: Repeat) -> None:
    """Raise a 422 if the key was used for another request."""
    if fingerprint != repeat.fingerprint:
        raise ApiError(422, "this Idempotency-Key was used for another request", code="idempotency_key_reused")


def is_answer(outcome: TurnOutcome, *, agent_spoke: bool) -> bool:
    """Whether this end is the answer for every request with its key."""
    return outcome.status is TurnStatus.COMPLETED or agent_spoke


def whole(known: IdempotencyRecord) -> Response:
    """Return the first answer again, as a whole."""
    return Response(known.body, known.status, dict(known.headers), "application/json")


def session_of(known: IdempotencyRecord) -> str | None:
    """Return the id of the session that the answer belongs to."""
    return dict(known.headers).get(SESSION_HEADER)
