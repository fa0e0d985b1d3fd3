"""Ends sessions whose reset policy says they are over, on a timer, without a new message.

Rules:
- Each session is finalised once: it is ended with its reason, its seat is given back, observers get its transcript, and
  then it is marked, durably. The mark keeps later passes, and the gateway after a restart, from doing it again.
- A session with a running or queued turn is not over, even if the clock says so. Nor is a session that was used or
  resumed since the pass began: a pass may be long, so each session is read again when its turn comes.
- A session that cannot be finalised does not hold up the others. After `PATIENCE` passes it is marked nevertheless,
  with a warning: a step that failed three times would always fail.
- A pass also expires the function calls that clients never answered, including those from before a restart.
- The wall clock is read, never slept on: it may jump. The timer only sets how often a pass runs.
"""

import logging

from ostler.gateway.chat.resets.policies import Policies
from ostler.gateway.chat.resets.policy import Policy
from ostler.gateway.model.errors import StoreError
from ostler.gateway.model.records import EXPIRIES, SessionChange, SessionRecord
from ostler.gateway.turns.sessions import Sessions
from ostler.metrics.loops import Loops

PATIENCE = 3
log = logging.getLogger(__name__)


class Expiry:
    """The loop that expires sessions. Created once, by `app.py`, which runs it."""

    def __init__(self, sessions: Sessions, policies: Policies, every: float, loops: Loops | None = None) -> None:
        self._loops = Loops() if loops is None else loops
        self._sessions = sessions
        self._deps = sessions.deps
        self._store = sessions.deps.store
        self._policies = policies
        self._every = every
        self._failures: dict[str, int] = {}

    async def run(self) -> None:
        """Run a pass every `every` seconds."""
        await self._loops.add("the search for sessions that are over").repeat(lambda: self._every, self.check)

    async def check(self) -> int:
        """Run one pass; return how many sessions were finalised."""
        done, now = 0, self._deps.wall()
        for call in await self._store.expire_parked(now):
            log.debug("call %s of session %s was never answered by its client", call.call_id, call.session_id)
        for group in self._policies.groups():
            edge = group.policy.over_before(now)
            if edge is None:
                continue
            for session in await self._store.expiring_sessions(edge, only=group.only, besides=group.besides):
                done += await self._try(session, group.policy, now)
        return done

    async def _try(self, session: SessionRecord, policy: Policy, now: float) -> bool:
        try:
            done = await self._finalize(await self._store.get_session(session.id), policy, now)
        except Exception as error:  # noqa: BLE001 - errors of an observer or the store are counted and logged below
            return await self._failed(session, error)
        self._failures.pop(session.id, None)
        return done

    async def _finalize(self, session: SessionRecord | None, policy: Policy, now: float) -> bool:
        if session is None or session.expiry_finalized or self._busy(session.id):
            return False
        reason = session.end_reason or policy.verdict(session.last_active_at, now)
        if reason not in EXPIRIES:
            return False
        if session.live and not await self._store.end_session(session.id, reason):
            return False
        if self._busy(session.id):
            # A message arrived while the end was being written. It came first, so its session must be live.
            await self._store.reopen_session(session.id)
            return False
        at_work = self._sessions.find(session.id)
        if at_work is not None:
            at_work.retire()
        self._deps.observer.session_ended(session.id, await self._store.history(session.id))
        await self._mark(session.id)
        log.info("session %s is over (%s)", session.id, reason)
        return True

    async def _failed(self, session: SessionRecord, error: Exception) -> bool:
        failures = self._failures[session.id] = self._failures.get(session.id, 0) + 1
        if failures < PATIENCE:
            log.debug("session %s could not be finalised, once more later: %r", session.id, error)
            return False
        log.warning("session %s could not be finalised %d times and is left as it is: %r", session.id, failures, error)
        del self._failures[session.id]
        try:
            await self._mark(session.id)
        except StoreError as fault:
            log.warning("session %s: and it cannot be marked either: %s", session.id, fault)
        return False

    async def _mark(self, session_id: str) -> None:
        await self._store.update_session(session_id, SessionChange(expiry_finalized=True))

    def _busy(self, session_id: str) -> bool:
        at_work = self._sessions.find(session_id)
        return at_work is not None and at_work.busy
