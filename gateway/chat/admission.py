"""Finds the session that a message belongs to: looked up, recovered, created, or replaced by a reset policy.

Rules:
- A message belongs to the session that its key leads to at admission. All its rows go there, wherever the key leads
  later.
- If the key leads nowhere, the latest live session of the same key and platform that has a message is used again. A
  session that was ended, by a command or by a policy, is never used again this way.
- A policy judges by the last stored activity, which includes a user's return to the session. A session with a running
  turn is active now.
- Of two concurrent first messages, one creates the session and the other finds it.
"""

from dataclasses import dataclass

from ostler.gateway.chat.conversation import ChatConversation
from ostler.gateway.chat.deps import ChatDeps
from ostler.gateway.chat.session_keys import SessionKey
from ostler.gateway.config.keys import Caller
from ostler.gateway.model.errors import RouteMoved
from ostler.gateway.model.records import EndReason, SessionRecord

EXPIRED: dict[str, str] = {
    EndReason.IDLE: "nothing was said for a long while",
    EndReason.DAILY: "a new day has begun",
}
TRIES = 5
"""How often another request may move the key during one admission before `RouteMoved` is raised."""


@dataclass(frozen=True, slots=True)
class AdmittedMessage:
    """A message's conversation and its live session."""

    conversation: ChatConversation
    session: SessionRecord


class Admission:
    """Finds or begins the session of each message and command."""

    def __init__(self, chat_deps: ChatDeps) -> None:
        self._chat_deps = chat_deps
        self._store = chat_deps.sessions.deps.store
        self._wall = chat_deps.sessions.deps.wall

    async def find(self, key: SessionKey, caller: Caller) -> ChatConversation:
        """The conversation as it is; begins no session and applies no reset policy."""
        route = await self._store.recover_route(key.stored, platform=key.platform)
        if route is None:
            return ChatConversation(self._chat_deps, key, caller, None, None)
        found = await self._store.get_session(route.session_id)
        live = found if found is not None and found.live else None
        conversation = ChatConversation(self._chat_deps, key, caller, live, route.session_id)
        if live is not None:
            await conversation.heal(live.id)
        return conversation

    async def admit(self, key: SessionKey, caller: Caller) -> AdmittedMessage:
        """The conversation with a live session. Raises `RouteMoved` if other requests moved the key `TRIES` times."""
        for last_try in (False,) * (TRIES - 1) + (True,):
            conversation = await self.find(key, caller)
            session = conversation.session
            reason = None if session is None else self._verdict(session, conversation)
            if session is not None and reason is None:
                return AdmittedMessage(conversation, session)
            try:
                return await self._begin(conversation, reason)
            except RouteMoved:
                if last_try:
                    raise
        raise AssertionError("the last try returns or raises")

    def _verdict(self, session: SessionRecord, conversation: ChatConversation) -> EndReason | None:
        if conversation.busy:
            return None
        return self._chat_deps.policies.of(conversation.platform).verdict(session.last_active_at, self._wall())

    async def _begin(self, conversation: ChatConversation, reason: EndReason | None) -> AdmittedMessage:
        """Begin a session, in place of the current one if a policy ended it."""
        await self._chat_deps.places.key(self._chat_deps.places.models.default, None, conversation.caller)
        old = conversation.session
        if old is None and conversation.routed is not None:
            old = await self._store.get_session(conversation.routed)
        fresh = await conversation.start_over(reason or EndReason.RESET)
        conversation.notices += self._notices(conversation, old, reason)
        return AdmittedMessage(conversation, fresh)

    def _notices(
        self, conversation: ChatConversation, old: SessionRecord | None, reason: EndReason | None
    ) -> list[str]:
        """Tell the user why a policy replaced the old session. Nothing is said of an empty one, or if the user ended
        it."""
        why = EXPIRED.get(reason or (old.end_reason if old else None) or "")
        if old is None or why is None or not old.message_count:
            return []
        if not self._chat_deps.policies.of(conversation.platform).tells:
            return []
        return [f"A new session begins, because {why}. The old one is kept: /resume {old.id} goes back to it."]
