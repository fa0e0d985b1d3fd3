"""One conversation as a command sees it: the session it writes to now, and everything that may be done to it.

Rules:
- A change of the session is one step in the store, then told: what is left ends durably, its end is told, then the
  switch, each once. Where somebody else was faster nothing happens, and `RouteMoved` says so.
- What is left is never waited for: its turns are cancelled, what they still say is stored with *their* session, and its
  seat is given back when they are over.
- Whoever changes a transcript calls `check_quiet` before and `rewritten` (or `rewound`) after.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from ostler.gateway.chat.deps import ChatDeps
from ostler.gateway.chat.errors import Busy
from ostler.gateway.chat.session_keys import SessionKey
from ostler.gateway.config.keys import Caller
from ostler.gateway.model.observers import ConversationObserver, SwitchReason
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.model.permits import NAME as PERMISSIONS
from ostler.gateway.model.permits import PermissionRule
from ostler.gateway.model.records import (
    EXPIRIES,
    EndReason,
    NewSession,
    RouteSwitch,
    SessionChange,
    SessionRecord,
    new_session_id,
)
from ostler.gateway.model.store import Store
from ostler.gateway.turns.mirrors import Mirrors, told
from ostler.gateway.turns.session import Session
from ostler.gateway.turns.sessions import Sessions
from ostler.pool.keys import TransportKey

log = logging.getLogger(__name__)


class ChatConversation:
    """One key, for the time of one message or command. Made by `Admission`."""

    def __init__(
        self, hall: ChatDeps, key: SessionKey, caller: Caller, session: SessionRecord | None, routed: str | None
    ) -> None:
        self.hall = hall
        self.key = key
        self.caller = caller
        self.session = session
        """The live session of this conversation; None where there is none yet, or the last one has ended."""
        self.routed = routed
        """Where the key leads, be that alive or not."""
        self.notices: list[str] = []
        """What the person should be told with the next thing that is said."""

    @property
    def platform(self) -> str:
        """Where it is held."""
        return self.key.platform

    @property
    def owner(self) -> str:
        """Whose it is: the name of the API key."""
        return self.key.owner

    @property
    def chat(self) -> str:
        """The place of the platform, as the store keeps it: what this conversation may see ends here."""
        return self.key.chat

    @property
    def store(self) -> Store:
        """The store."""
        return self.hall.sessions.house.store

    @property
    def sessions(self) -> Sessions:
        """Every session at work."""
        return self.hall.sessions

    @property
    def observer(self) -> ConversationObserver:
        """Who is told."""
        return self.hall.sessions.house.observer

    @property
    def mirrors(self) -> Mirrors:
        """The files that people read."""
        return self.hall.sessions.house.mirrors

    # --- what runs ---

    @property
    def at_work(self) -> Session | None:
        """The session with its turn, its queue and its seat; None where it has none of them."""
        return None if self.session is None else self.sessions.find(self.session.id)

    @property
    def busy(self) -> bool:
        """Whether a turn runs or waits."""
        at_work = self.at_work
        return at_work is not None and at_work.busy

    def check_quiet(self) -> None:
        """Raise `Busy` while a turn runs or waits."""
        if self.session is not None and self.busy:
            raise Busy(self.session.id)

    def stop(self) -> bool:
        """Cancel the running turn and those that wait. Whether there was one."""
        at_work = self.at_work
        if at_work is None or not at_work.busy:
            return False
        at_work.stop_all(StopCause.CLIENT)
        return True

    # --- which session it is ---

    async def start_over(self, ends: EndReason = EndReason.RESET) -> SessionRecord:
        """Leave everything behind. The session that begins has no model, directory or title of the old one."""
        return await self.switch_to(self.fresh(), SwitchReason.NEW, ends)

    async def begun(self) -> SessionRecord:
        """The session; where there is none, a new one."""
        return self.session or await self.start_over()

    def fresh(self) -> NewSession:
        """A session of this conversation that is not made yet."""
        ident = new_session_id(self.hall.sessions.house.ids.random_bytes)
        return NewSession(ident, self.key.stored, self.platform, self.owner, self.chat)

    async def rescued(self, session_id: str) -> SessionRecord | None:
        """A session that the store has lost and its mirror remembers, back in the store as one of this conversation.

        Only where there are no owners: a mirror does not say whose it is.
        """
        if (
            self.owner
            or not await self.mirrors.remembers(session_id)
            or await self.store.get_session(session_id) is not None
        ):
            return None
        found = replace(self.fresh(), id=session_id)
        await self.store.create_session(found)
        await self.heal(session_id, again=True)
        return await self.store.get_session(session_id)

    async def switch_to(
        self, target: NewSession | str, reason: SwitchReason, ends: EndReason = EndReason.SWITCH
    ) -> SessionRecord:
        """Write to this session from now on: one to be made, or one that is there and lives again."""
        left = self.session
        if left is not None and target == left.id:
            return left
        if isinstance(target, str):
            await self.heal(target, again=True)
        switch = RouteSwitch(
            self.key.stored,
            self.routed,
            target,
            None if left is None else ends,
            finalizes=ends in EXPIRIES,
            platform=self.platform,
        )
        # Read before: once the step is done nothing may fail any more, or it would be done by halves.
        transcript = await self.store.history(left.id) if left is not None and reason is SwitchReason.NEW else None
        session = await self.store.switch_route(switch)
        if left is not None and transcript is not None:
            self._tell(left.id, lambda: self.observer.session_ended(left.id, transcript))
        self._moved(session, reason)
        return session

    def adopt(self, session: SessionRecord, reason: SwitchReason) -> None:
        """The store leads the key there already (a compression does that in its own step): leave the old one."""
        self._moved(session, reason)

    def _moved(self, session: SessionRecord, reason: SwitchReason) -> None:
        left, self.session, parent = self.session, session, self.routed or ""
        log.debug("conversation %s: session %s follows %s (%s)", self.key, session.id, parent or "nothing", reason)
        self.routed = session.id
        at_work = None if left is None else self.sessions.find(left.id)
        if at_work is not None:
            at_work.retire()
        self.mirrors.grew(session.id)
        if parent:
            switched = self.observer.session_switched
            self._tell(session.id, lambda: switched(session.id, parent_id=parent, reason=reason))

    @staticmethod
    def _tell(session_id: str, tell: Callable[[], None]) -> None:
        """What was done is done: a witness that cannot bear it costs a warning."""
        try:
            tell()
        except Exception as error:  # noqa: BLE001 - whatever a witness raises, its conversation has changed already
            log.warning("session %s: somebody could not be told what became of it: %r", session_id, error)

    async def heal(self, session_id: str, *, again: bool = False) -> None:
        """Put back what only the mirror of a session has; the person hears of it."""
        at_work = self.sessions.find(session_id)
        if at_work is None or not at_work.busy:
            healed = await self.mirrors.heal(session_id, again=again)
            if healed is not None and (text := told(healed)):
                self.notices.append(f"This session was mended: {text}.")

    # --- what it says ---

    async def rewritten(self) -> None:
        """The transcript was rewritten. The agent that heard the old one gets no further prompt."""
        at_work = self.at_work
        if at_work is not None:
            at_work.release_seat()
        if self.session is not None:
            await self.mirrors.rewrite(self.session.id)

    async def rewound(self) -> None:
        """Turns were taken back."""
        await self.rewritten()
        if self.session is not None:
            session_id = self.session.id
            self._tell(session_id, lambda: self.observer.session_rewound(session_id))

    # --- how it is answered ---

    async def transport_key(self) -> TransportKey:
        """The process that answers: the session's own model and directory, else those of the gateway."""
        places, session = self.hall.places, self.session
        model = (session.model if session else None) or places.models.default
        return await places.key(model, session.cwd if session else None, self.caller)

    def rule(self, key: TransportKey) -> PermissionRule:
        """What its agent hears that asks for permission: a person is here to be asked."""
        kept = self.session.metadata.get(PERMISSIONS) if self.session else None
        return self.hall.places.rule(key, self.caller, None, kept if isinstance(kept, str) else None)

    async def override(self, *, model: str | None = None, cwd: str | None = None) -> TransportKey:
        """Let this session be answered by another model or in another directory from its next turn on."""
        session = await self.begun()
        self.session = replace(session, model=model or session.model, cwd=cwd or session.cwd)
        try:
            key = await self.transport_key()
        except BaseException:
            self.session = session
            raise
        change = SessionChange(model=model, cwd=None if cwd is None else key.cwd)
        self.session = await self.store.update_session(session.id, change)
        return key
