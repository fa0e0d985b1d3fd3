"""Erases sessions from the store, the mirrors and the memory, after stopping their turns.

Rules:
- The session's turns are stopped and have ended before anything is deleted: the end of a turn would store its answer
  again.
- A mirror is removed after its session, so that nothing restores it in between; memory is told last.
- Records of the agents, logs, and copies that others made are not erased: see docs/operating.md.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ostler.gateway.model.outcome import StopCause
from ostler.gateway.turns.sessions import Sessions

log = logging.getLogger(__name__)
SLACK = 86_400.0
"""Seconds added to the present time: a clock that stepped back leaves sessions that were active in the future."""


class Eraser:
    """Erases the sessions of one gateway. `forget` tells memory of an erased session."""

    def __init__(self, sessions: Sessions, forget: Callable[[str], None]) -> None:
        self._sessions = sessions
        self._deps = sessions.deps
        self._forget = forget

    async def erase(self, session_ids: Sequence[str]) -> list[str]:
        """Erase these sessions and those with copies of their text. Return the ids of all that were erased."""
        for session_id in await self._deps.store.with_copies(session_ids):
            await self._stop(session_id)
        gone = await self._deps.store.erase(session_ids)
        await self._tidy(gone)
        return gone

    async def _tidy(self, gone: Sequence[str]) -> None:
        for session_id in gone:
            self._sessions.forget(session_id)
            await self._deps.mirrors.remove(session_id)
            self._forget(session_id)
        log.info("%d sessions were erased", len(gone))

    async def erase_unreachable(self, session_id: str) -> None:
        """Erase this session if nothing leads to it any more."""
        gone = await self._deps.store.prune_unreachable(before=self._deps.wall() + SLACK, only=session_id)
        if gone:
            await self._deps.store.erase_words()
            await self._tidy(gone)

    async def _stop(self, session_id: str) -> None:
        at_work = self._sessions.find(session_id)
        if at_work is None:
            return
        turns = at_work.turns
        at_work.stop_all(StopCause.CLIENT)
        await asyncio.gather(*(turn.over.wait() for turn in turns))
