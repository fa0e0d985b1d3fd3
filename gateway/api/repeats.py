"""`Idempotency-Key`: a request that is sent again gets the first answer again, and asks no agent a second time.

Rules: the answer is stored in the same step as the turn it came from. The same key with another body is a mistake of
the client and gets 422. Two at once: the second waits for the first.
"""

import asyncio
import hashlib
from dataclasses import dataclass

import orjson
from starlette.responses import Response

from ostler.gateway.api.answers import SESSION_HEADER
from ostler.gateway.api.errors import ApiError, bad
from ostler.gateway.records import IdempotencyRecord
from ostler.gateway.store import Store
from ostler.wire.json import JsonObject

KEPT = 300.0
LONGEST = 256


@dataclass(frozen=True, slots=True)
class Repeat:
    """A key of one caller, and what it was used for."""

    key: str
    owner: str
    fingerprint: str

    def record(self, document: JsonObject, session_id: str, now: float) -> IdempotencyRecord:
        """The answer as it is kept."""
        headers = ((SESSION_HEADER, session_id),)
        return IdempotencyRecord(
            self.key, self.owner, self.fingerprint, 200, headers, orjson.dumps(document), now + KEPT
        )


class Repeats:
    """Answers by key."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: dict[tuple[str, str], asyncio.Event] = {}

    def read(self, key: str | None, owner: str, content: bytes) -> Repeat | None:
        """The header of a request, if it has one."""
        if key is None:
            return None
        if not 1 <= len(key) <= LONGEST or not key.isprintable():
            raise bad(f"Idempotency-Key must have 1 to {LONGEST} printable characters", "Idempotency-Key")
        return Repeat(key, owner, hashlib.sha256(content).hexdigest())

    async def begin(self, repeat: Repeat) -> Response | None:
        """The first answer, or None: then this is the first request, and `end` must be called."""
        name = (repeat.owner, repeat.key)
        while (running := self._running.get(name)) is not None:
            await running.wait()
        known = asyncio.Event()
        self._running[name] = known
        try:
            found = await self._store.recall(repeat.key, owner=repeat.owner)
        except BaseException:
            self.end(repeat)
            raise
        if found is None:
            return None
        self.end(repeat)
        if found.fingerprint != repeat.fingerprint:
            raise ApiError(422, "this Idempotency-Key was used for another request", code="idempotency_key_reused")
        return Response(found.body, found.status, dict(found.headers), "application/json")

    def end(self, repeat: Repeat) -> None:
        """The request is over, with or without an answer."""
        self._running.pop((repeat.owner, repeat.key)).set()
