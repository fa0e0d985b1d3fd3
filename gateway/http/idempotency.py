"""`Idempotency-Key`: a request that is sent again gets the first answer again, and asks no agent a second time.

Rules:
- The answer is stored in the same step as the turn it came from. An answer that no agent was heard for (a full pool, a
  start that failed, a stop in the queue) is none: who comes again is served anew. Once an agent was heard it may have
  done things, so what came of it is the answer, also where it was cut off. What a background response is answered with
  is its receipt, and kept from then on.
- The same key for anything else (another body, path or session) is a mistake of the client and gets 422.
- Two at once: the second waits for the first, or reads along where that one streams. The turn goes on while either is
  there.
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
from ostler.gateway.http.client_presence import Audience
from ostler.gateway.http.feed import Feed
from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import IdempotencyRecord
from ostler.gateway.model.store import Store
from ostler.gateway.turns.turn import Turn
from ostler.wire.json import JsonObject

HEADER = "idempotency-key"
NAMING = "x-ostler-session"
"""The header that names a chat completion's conversation: a part of what is asked."""
KEPT = 300.0
LONGEST = 256


@dataclass(frozen=True, slots=True)
class Repeat:
    """A key of one caller, and what it was used for."""

    key: str
    owner: str
    fingerprint: str

    def record(self, document: JsonObject, session_id: str | None, now: float, status: int = 200) -> IdempotencyRecord:
        """The answer as it is kept."""
        headers = () if session_id is None else ((SESSION_HEADER, session_id),)
        return IdempotencyRecord(
            self.key, self.owner, self.fingerprint, status, headers, orjson.dumps(document), now + KEPT
        )


@dataclass(frozen=True, slots=True)
class Held:
    """A stream that is being written for this key."""

    feed: Feed
    session_id: str
    turn: Turn


@dataclass(eq=False, slots=True)
class RunningAnswer:
    """A first request."""

    repeat: Repeat
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Its answer is a stream, or it is over."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    held: Held | None = None
    audience: Audience = field(default_factory=Audience)


class IdempotentAnswers:
    """Answers by key."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: dict[tuple[str, str], RunningAnswer] = {}

    async def read(self, request: Request, owner: str) -> Repeat | None:
        """The header of a request, if it has one."""
        key = request.headers.get(HEADER)
        if key is None:
            return None
        if not 1 <= len(key) <= LONGEST or not key.isprintable():
            raise bad(f"Idempotency-Key must have 1 to {LONGEST} printable characters", "Idempotency-Key")
        asked = [request.url.path, request.headers.get(NAMING), hashlib.sha256(await request.body()).hexdigest()]
        return Repeat(key, owner, hashlib.sha256(orjson.dumps(asked)).hexdigest())

    async def begin(self, repeat: Repeat, request: Request) -> IdempotencyRecord | Held | None:
        """The first answer, or its stream; or None: then this is the first request, and `end` must be called."""
        name = (repeat.owner, repeat.key)
        while (running := self._running.get(name)) is not None:
            check_same(running.repeat.fingerprint, repeat)
            held = running.held
            if held is not None and held.turn.stopped is None:
                return held
            # A stream that was stopped is left to its end: who comes now need not share the fate of who left.
            if not await running.audience.attend(request, running.news if held is None else running.over):
                raise ClientDisconnect  # where the first one has left no answer, none is made for nobody
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

    def hold(self, repeat: Repeat, feed: Feed, session_id: str, turn: Turn) -> None:
        """The answer is a stream: whoever comes until its end reads along."""
        running = self._running.get((repeat.owner, repeat.key))
        if running is not None:
            running.held = Held(feed, session_id, turn)
            running.news.set()

    def audience(self, repeat: Repeat | None) -> Audience:
        """Who waits for the answer of this first request, itself included."""
        running = None if repeat is None else self._running.get((repeat.owner, repeat.key))
        return Audience() if running is None or running.repeat is not repeat else running.audience

    def end(self, repeat: Repeat) -> None:
        """The request is over, with or without an answer. Idempotent: by now the key may be another request's."""
        name = (repeat.owner, repeat.key)
        running = self._running.get(name)
        if running is not None and running.repeat is repeat:
            del self._running[name]
            running.news.set()
            running.over.set()

    @contextmanager
    def beginning(self, repeat: Repeat | None) -> Iterator[None]:
        """What fails before there is a turn leaves the key free. From then on the end of the turn does."""
        try:
            yield
        except BaseException:
            if repeat is not None:
                self.end(repeat)
            raise


def check_same(fingerprint: str, repeat: Repeat) -> None:
    """Refuse a key that was used for something else."""
    if fingerprint != repeat.fingerprint:
        raise ApiError(422, "this Idempotency-Key was used for another request", code="idempotency_key_reused")


def is_answer(outcome: TurnOutcome, *, heard: bool) -> bool:
    """Whether this end is what everybody gets who asks with its key."""
    return outcome.status is TurnStatus.COMPLETED or heard


def whole(known: IdempotencyRecord) -> Response:
    """The first answer once more."""
    return Response(known.body, known.status, dict(known.headers), "application/json")


def session_of(known: IdempotencyRecord) -> str | None:
    """Whose answer it was."""
    return dict(known.headers).get(SESSION_HEADER)
