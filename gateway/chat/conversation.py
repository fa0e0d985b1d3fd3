"""A conversation as commands see it: its current session, and every operation on it.

Rules:
- A change of the session is one step in the store, then observers are told: first that the old session ended, then of
  the switch, each once. If another request was faster, nothing changes and `RouteMoved` is raised.
- No operation waits for the session it leaves: its turns are cancelled, their last output is stored with *that*
  session, and its seat is given back when they are over.
- A caller that changes a transcript calls `check_idle` before and `rewritten` (or `rewound`) after.
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
    """One session key, for the time of one message or command. Created by `Admission`."""

    def __init__(
        self, chat_deps: ChatDeps, key: SessionKey, caller: Caller, session: SessionRecord | None, routed: str | None
    ) -> None:
        self.chat_deps = chat_deps
        self.key = key
        self.caller = caller
        self.session = session
        """The live session of this conversation; None before the first one, or if the last one has ended."""
        self.routed = routed
        """The session id that the key leads to, live or ended."""
        self.notices: list[str] = []
        """Texts to deliver to the user with the next answer or reply."""

    @property
    def platform(self) -> str:
        return self.key.platform

    @property
    def owner(self) -> str:
        """The name of the API key that the conversation belongs to."""
        return self.key.owner

    @property
    def chat(self) -> str:
        """The chat on the platform, as the store keeps it. A conversation sees only sessions of its own chat."""
        return self.key.chat

    @property
    def store(self) -> Store:
        return self.chat_deps.sessions.deps.store

    @property
    def sessions(self) -> Sessions:
        """All sessions with a turn, a queue or a seat."""
        return self.chat_deps.sessions

    @property
    def observer(self) -> ConversationObserver:
        return self.chat_deps.sessions.deps.observer

    @property
    def mirrors(self) -> Mirrors:
        return self.chat_deps.sessions.deps.mirrors

    # --- the running turn ---

    @property
    def at_work(self) -> Session | None:
        """The session's live object with its turn, queue and seat; None if it has none of them."""
        return None if self.session is None else self.sessions.find(self.session.id)

    @property
    def busy(self) -> bool:
        """Whether a turn is running or queued."""
        at_work = self.at_work
        return at_work is not None and at_work.busy

    def check_idle(self) -> None:
        """Raise `Busy` if a turn is running or queued."""
        if self.session is not None and self.busy:
            raise Busy(self.session.id)

    def stop(self) -> bool:
        """Cancel the running turn and the queued ones; return whether there were any."""
        at_work = self.at_work
        if at_work is None or not at_work.busy:
            return False
        at_work.stop_all(StopCause.CLIENT)
        return True

    # --- the session ---

    async def start_over(self, ends: EndReason = EndReason.RESET) -> SessionRecord:
        """Begin a new session. It inherits no model, directory or title from the old one."""
        return await self.switch_to(self.fresh(), SwitchReason.NEW, ends)

    async def begun(self) -> SessionRecord:
        """The live session; begins one if there is none."""
        return self.session or await self.start_over()

    def fresh(self) -> NewSession:
        """The values of a new session of this conversation, not stored yet."""
        ident = new_session_id(self.chat_deps.sessions.deps.ids.random_bytes)
        return NewSession(ident, self.key.stored, self.platform, self.owner, self.chat)

    async def rescued(self, session_id: str) -> SessionRecord | None:
        """Put a session that the store has lost back from its mirror, as a session of this conversation.

        Only without owners: a mirror does not record whose it is.
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
        """Write to another session from now on: a new one, or an existing one, which is reopened if it had ended."""
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
        # Read the transcript first: after `switch_route` nothing may fail, or the switch would be half done.
        transcript = await self.store.history(left.id) if left is not None and reason is SwitchReason.NEW else None
        session = await self.store.switch_route(switch)
        if left is not None and transcript is not None:
            self._tell(left.id, lambda: self.observer.session_ended(left.id, transcript))
        self._moved(session, reason)
        return session

    def follow(self, session: SessionRecord, reason: SwitchReason) -> None:
        """Leave the old session if the store already leads the key to the new one, as compression does in its own
        step."""
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
        """Notify an observer. The change is already made, so an error of the observer is only logged."""
        try:
            tell()
        except Exception as error:  # noqa: BLE001 - the change is made; any error of an observer is only logged
            log.warning("session %s: somebody could not be told what became of it: %r", session_id, error)

    async def heal(self, session_id: str, *, again: bool = False) -> None:
        """Put back the messages that only the mirror has, and add a notice for the user."""
        at_work = self.sessions.find(session_id)
        if at_work is None or not at_work.busy:
            healed = await self.mirrors.heal(session_id, again=again)
            if healed is not None and (text := told(healed)):
                self.notices.append(f"This session was mended: {text}.")

    # --- the transcript ---

    async def rewritten(self) -> None:
        """Call after rewriting the transcript: the agent that knows the old one gets no further prompt."""
        at_work = self.at_work
        if at_work is not None:
            at_work.release_seat()
        if self.session is not None:
            await self.mirrors.rewrite(self.session.id)

    async def rewound(self) -> None:
        """Call after turns were taken back."""
        await self.rewritten()
        if self.session is not None:
            session_id = self.session.id
            self._tell(session_id, lambda: self.observer.session_rewound(session_id))

    # --- the agent ---

    async def transport_key(self) -> TransportKey:
        """The process key for the next turn: the session's own model and directory, else the gateway's."""
        places, session = self.chat_deps.places, self.session
        model = (session.model if session else None) or places.models.default
        return await places.key(model, session.cwd if session else None, self.caller)

    def rule(self, key: TransportKey) -> PermissionRule:
        """The permission rule for the agent. A user is present in a chat, so questions can be asked."""
        kept = self.session.metadata.get(PERMISSIONS) if self.session else None
        return self.chat_deps.places.rule(key, self.caller, None, kept if isinstance(kept, str) else None)

    async def override(self, *, model: str | None = None, cwd: str | None = None) -> TransportKey:
        """Change the model or directory of this session from its next turn on."""
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
