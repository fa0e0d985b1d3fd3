"""Which session a message belongs to: looked up, recovered, begun, or begun anew by a reset policy.

Rules:
- A message belongs to the session the key leads to at its admission; all its rows go there, whatever happens to the key
  afterwards.
- Where the key leads nowhere, the latest live session of the same key and platform that has a message is taken up
  again. A session that was ended, by a command or by a policy, is never taken up again.
- A policy is asked about the last thing that was stored, or about the moment somebody went back to the session. One
  with a running turn is active now.
- Of two first messages at once one makes the session and the other one finds it.
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
"""How often somebody else may move the key while we look."""


@dataclass(frozen=True, slots=True)
class AdmittedMessage:
    """A conversation with a live session."""

    conversation: ChatConversation
    session: SessionRecord


class Admission:
    """The way in for messages and commands."""

    def __init__(self, hall: ChatDeps) -> None:
        self._hall = hall
        self._store = hall.sessions.house.store
        self._wall = hall.sessions.house.wall

    async def look(self, key: SessionKey, caller: Caller) -> ChatConversation:
        """The conversation as it is: nothing begins and nothing is reset."""
        route = await self._store.recover_route(key.stored, platform=key.platform)
        if route is None:
            return ChatConversation(self._hall, key, caller, None, None)
        found = await self._store.get_session(route.session_id)
        live = found if found is not None and found.live else None
        conversation = ChatConversation(self._hall, key, caller, live, route.session_id)
        if live is not None:
            await conversation.heal(live.id)
        return conversation

    async def admit(self, key: SessionKey, caller: Caller) -> AdmittedMessage:
        """The session that a message belongs to, which is there and alive."""
        for last_try in (False,) * (TRIES - 1) + (True,):
            conversation = await self.look(key, caller)
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
        return self._hall.policies.of(conversation.platform).verdict(session.last_active_at, self._wall())

    async def _begin(self, conversation: ChatConversation, reason: EndReason | None) -> AdmittedMessage:
        """A new session, in place of the one that has ended or ends now."""
        await self._hall.places.key(self._hall.places.models.default, None, conversation.caller)
        old = conversation.session
        if old is None and conversation.routed is not None:
            old = await self._store.get_session(conversation.routed)
        fresh = await conversation.start_over(reason or EndReason.RESET)
        conversation.notices += self._notices(conversation, old, reason)
        return AdmittedMessage(conversation, fresh)

    def _notices(
        self, conversation: ChatConversation, old: SessionRecord | None, reason: EndReason | None
    ) -> list[str]:
        """What became of the old session, where its person did not do it and would miss something."""
        why = EXPIRED.get(reason or (old.end_reason if old else None) or "")
        if old is None or why is None or not old.message_count:
            return []
        if not self._hall.policies.of(conversation.platform).tells:
            return []
        return [f"A new session begins, because {why}. The old one is kept: /resume {old.id} goes back to it."]
