"""Keeps the mirrors of all sessions in line with the store, in parallel to the turns and never in their way.

Rules:
- New messages are appended from the store in the background; a rewritten transcript is written completely while its
  command waits.
- When a session is first used after a start of the gateway, its mirror is reconciled first: messages that only the
  mirror has go back into the store, before anything reads the transcript. After that only this class writes the mirror.
- A mirror is derived data. A failed write logs a warning and never fails a turn; the next write writes the whole file.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from ostler.gateway.model.errors import BadSessionId, GatewayError
from ostler.gateway.model.keyed_locks import KeyedLocks
from ostler.gateway.model.store import Store
from ostler.gateway.stores.healing import Healed, heal
from ostler.gateway.stores.mirror import Mirror
from ostler.metrics.loops import Loops
from ostler.pool.tasks import TaskOwner

WHOLE = -1
"""In place of a message id: write the whole file, unless that would make it shorter."""

log = logging.getLogger(__name__)


class Mirrors:
    """The mirrors of one gateway. The composition root makes it once."""

    def __init__(
        self, store: Store, mirror: Mirror, tasks: TaskOwner, *, enabled: bool, most: int, loops: Loops | None = None
    ) -> None:
        """`most` limits for how many sessions the position of the mirror is kept in memory."""
        self._store = store
        self._mirror = mirror
        self._tasks = tasks
        self._rounds = (loops or Loops()).add("the writing of mirrors")
        self._enabled = enabled
        self._most = most
        self._locks = KeyedLocks()
        self._last_mirrored: OrderedDict[str, int] = OrderedDict()
        """By session: the id of the last message that its mirror contains."""
        self._grown: OrderedDict[str, None] = OrderedDict()
        self._working: asyncio.Task[None] | None = None

    async def remembers(self, session_id: str) -> bool:
        """Whether a mirror of this name exists. The name may be any text that a person typed."""
        try:
            return self._enabled and await asyncio.to_thread(self._mirror.exists, session_id)
        except BadSessionId:
            return False

    async def heal(self, session_id: str, *, again: bool = False) -> Healed | None:
        """Reconcile store and mirror, the first time or `again`. None: there was nothing to reconcile.

        Must not run while a turn of this session runs: ids of messages may change.
        """
        if not self._enabled or (session_id in self._last_mirrored and not again):
            return None
        async with self._locks.hold(session_id):
            if session_id in self._last_mirrored and not again:
                return None
            if not await asyncio.to_thread(self._mirror.exists, session_id):
                self._remember(session_id, WHOLE)
                return None
            try:
                healed = await heal(self._store, self._mirror, session_id)
                await self._note(session_id)
            except (GatewayError, OSError) as error:
                log.warning("the mirror of session %s cannot be brought in line: %s", session_id, error)
                return None
        if healed.put_back or healed.unreadable:
            log.warning("session %s: %s", session_id, told(healed))
        return healed

    def grew(self, session_id: str) -> None:
        """Messages of this session were stored; append them in the background."""
        if not self._enabled:
            return
        self._grown[session_id] = None
        if self._working is None or self._working.done():
            self._working = self._tasks.start(self._work(), "mirrors")

    async def rewrite(self, session_id: str) -> None:
        """The transcript was rewritten and may be shorter; write the whole mirror."""
        if self._enabled:
            await self._try(session_id, self._rewrite)

    async def remove(self, session_id: str) -> None:
        """The session was deleted; remove its mirror."""
        self._grown.pop(session_id, None)
        async with self._locks.hold(session_id):
            self._last_mirrored.pop(session_id, None)
            try:
                await asyncio.to_thread(self._mirror.remove, session_id)
            except OSError as error:
                log.warning("the mirror of session %s cannot be removed: %s", session_id, error)

    async def settled(self) -> None:
        """Wait until all new messages are written."""
        while self._working is not None and not self._working.done():
            await asyncio.wait([self._working])

    async def _work(self) -> None:
        while self._grown:
            session_id, _ = self._grown.popitem(last=False)
            with self._rounds.round():
                await self._try(session_id, self._follow)
            if self._rounds.failures:
                self._remember(session_id, WHOLE)

    async def _try(self, session_id: str, does: Callable[[str], Awaitable[None]]) -> None:
        async with self._locks.hold(session_id):
            try:
                await does(session_id)
            except (GatewayError, OSError) as error:
                self._remember(session_id, WHOLE)
                log.warning("the mirror of session %s is behind: %s", session_id, error)

    async def _follow(self, session_id: str) -> None:
        last = self._last_mirrored.get(session_id, WHOLE)
        if last == WHOLE:
            transcript = await self._store.history(session_id)
            if not await asyncio.to_thread(self._mirror.save, session_id, transcript):
                log.warning("the mirror of session %s knows more than the store; a restart puts that back", session_id)
                return
        else:
            transcript = await self._store.history(session_id, after=last)
            await asyncio.to_thread(self._mirror.append, session_id, transcript)
        self._remember(session_id, transcript[-1].id if transcript else max(last, 0))

    async def _rewrite(self, session_id: str) -> None:
        transcript = await self._store.history(session_id)
        await asyncio.to_thread(self._mirror.rewrite, session_id, transcript)
        self._remember(session_id, transcript[-1].id if transcript else 0)

    async def _note(self, session_id: str) -> None:
        last = await self._store.history(session_id, last=1)
        self._remember(session_id, last[-1].id if last else 0)

    def _remember(self, session_id: str, last: int) -> None:
        self._last_mirrored[session_id] = last
        self._last_mirrored.move_to_end(session_id)
        while len(self._last_mirrored) > self._most:
            self._last_mirrored.popitem(last=False)


def told(healed: Healed) -> str:
    """Return what a reconciliation did, as text for a person."""
    said = []
    if healed.put_back:
        said.append(f"{healed.put_back} messages that were missing were put back from the session's mirror")
    if healed.unreadable:
        said.append(f"{healed.unreadable} lines of its mirror cannot be read and were left out")
    return "; ".join(said)
