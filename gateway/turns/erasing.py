"""Sessions are erased: out of the store, the mirrors and the memory, and their turns stopped before.

Rules:
- What runs is stopped and has ended before anything is deleted: the end of a turn would write its answer down again.
- A mirror goes after its session, so that nothing puts it back in between; a memory is told last.
- What agents keep in their own records, what was logged, and copies that others made stay: see docs/operating.md.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ostler.gateway.model.outcome import StopCause
from ostler.gateway.turns.sessions import Sessions

log = logging.getLogger(__name__)
SLACK = 86_400.0
"""A clock that stepped back leaves sessions that were active in the future."""


class Eraser:
    """Of one gateway. `forget` tells the memory of a session that is gone."""

    def __init__(self, sessions: Sessions, forget: Callable[[str], None]) -> None:
        self._sessions = sessions
        self._house = sessions.house
        self._forget = forget

    async def erase(self, session_ids: Sequence[str]) -> list[str]:
        """Erase these, and those that hold copies of their text. The ids of all that are gone."""
        for session_id in await self._house.store.with_copies(session_ids):
            await self._stop(session_id)
        gone = await self._house.store.erase(session_ids)
        await self._tidy(gone)
        return gone

    async def _tidy(self, gone: Sequence[str]) -> None:
        for session_id in gone:
            self._sessions.forget(session_id)
            await self._house.mirrors.remove(session_id)
            self._forget(session_id)
        log.info("%d sessions were erased", len(gone))

    async def erase_unreachable(self, session_id: str) -> None:
        """Erase this one where nothing leads to it any more."""
        gone = await self._house.store.prune_unreachable(before=self._house.wall() + SLACK, only=session_id)
        if gone:
            await self._house.store.erase_words()
            await self._tidy(gone)

    async def _stop(self, session_id: str) -> None:
        at_work = self._sessions.find(session_id)
        if at_work is None:
            return
        turns = at_work.turns
        at_work.stop_all(StopCause.CLIENT)
        await asyncio.gather(*(turn.over.wait() for turn in turns))
