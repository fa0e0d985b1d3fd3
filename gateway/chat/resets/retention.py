"""Ends sessions that can no longer be reached, and deletes sessions that were unused for long.

Rules:
- A session of the API is unreachable when its conversation was deleted, its responses were deleted or evicted, and the
  process holds no seat for it: no request can name it. Sessions of chat surfaces can be resumed, so they are deleted
  only if `retention.ended` is set, and only after they have ended.
- A session of a `store: false` request is erased as soon as it is unreachable; other unreachable sessions end then, and
  are deleted after `retention.unreachable`.
- A session that the process uses is never touched.
"""

import logging
from collections.abc import Callable

from ostler.gateway.config.settings import RetentionSettings
from ostler.gateway.turns.sessions import Sessions
from ostler.metrics.loops import Loops

log = logging.getLogger(__name__)
AT_ONCE = 100
TIDY_EVERY = 86_400.0
"""Minimum seconds between two merges of the full-text index, which remove deleted words from it: a merge takes about 1
s."""


class Retention:
    """The loop that ends and deletes sessions. Created once, by `app.py`, which runs it."""

    def __init__(
        self,
        sessions: Sessions,
        settings: RetentionSettings,
        every: float,
        *,
        erased: Callable[[str], None],
        expired: Callable[[str], None],
        loops: Loops | None = None,
    ) -> None:
        """`erased` tells the memory that an unstored session is gone, `expired` that another one is."""
        self._sessions = sessions
        self._store = sessions.deps.store
        self._erased = erased
        self._expired = expired
        self._settings = settings
        self._every = every
        self._untidy = False
        self._tidied = 0.0
        self._loops = Loops() if loops is None else loops

    async def run(self) -> None:
        """Run a pass every `every` seconds."""
        await self._loops.add("the search for sessions that nothing leads to").repeat(lambda: self._every, self.check)

    async def check(self) -> int:
        """Run one pass; return how many sessions were deleted."""
        deps, settings, store = self._sessions.deps, self._settings, self._store
        now, held = deps.wall(), self._sessions.in_use()
        rested = now - deps.settings.seat_idle
        unstored = await store.prune_unreachable(before=rested, besides=held, unstored=True, limit=AT_ONCE)
        for session_id in unstored:
            self._erased(session_id)
        await store.end_unreachable(before=rested, besides=held, limit=AT_ONCE)
        gone = await store.prune_unreachable(before=now - settings.unreachable, besides=held, limit=AT_ONCE)
        if settings.ended is not None:
            gone += await store.prune(before=now - settings.ended, limit=AT_ONCE)
        for session_id in gone:
            self._expired(session_id)
        for session_id in (*unstored, *gone):
            self._sessions.forget(session_id)
            await deps.mirrors.remove(session_id)
        self._untidy |= bool(unstored or gone)
        if self._untidy and now - self._tidied >= TIDY_EVERY:
            self._untidy, self._tidied = False, now
            await store.erase_words()
        if unstored or gone:
            log.info("%d sessions that nothing led to were deleted", len(unstored) + len(gone))
        return len(unstored) + len(gone)
