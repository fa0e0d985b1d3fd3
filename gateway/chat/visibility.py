"""Which other sessions a conversation may see, and the list that `/resume N` refers to.

Rules:
- A user sees their own sessions in the same chat of the same platform; an administrator's key sees all. Without keys
  every user may operate the gateway, but sessions have no owner: there the chat is the limit.
- The last list is stored durably under the session key: a number typed next week, or after a restart, means the session
  that was shown.
"""

from collections.abc import Sequence

from ostler.gateway.chat.conversation import ChatConversation
from ostler.gateway.model.records import Role, SessionQuery, SessionRecord

LISTED = "listed:"
API = "api"
"""The platform of the OpenAI API. It has no chats: clients name their conversations freely."""


def visible_sessions(conversation: ChatConversation, *, titled: bool | None = None) -> SessionQuery:
    """The query for the sessions that this conversation may see."""
    if conversation.caller.admin and conversation.caller.name:
        return SessionQuery(platform=None if titled is None else conversation.platform, titled=titled)
    chat = None if conversation.platform == API else conversation.chat
    return SessionQuery(conversation.platform, conversation.owner, chat, titled=titled)


async def remember_list(conversation: ChatConversation, sessions: Sequence[SessionRecord]) -> None:
    """Store the list that was shown, in its order."""
    ids = [session.id for session in sessions]
    await conversation.store.set_mark(LISTED + conversation.key.stored, {"sessions": ids})


async def remembered_list(conversation: ChatConversation) -> list[str] | None:
    """The ids of the last list that was shown; None if there was none."""
    name = LISTED + conversation.key.stored
    mark = (await conversation.store.marks(name)).get(name)
    found = None if mark is None else mark.get("sessions")
    return [str(session_id) for session_id in found] if isinstance(found, list) else None


async def previews(conversation: ChatConversation, sessions: Sequence[SessionRecord]) -> dict[str, str]:
    """The last message of the user in each session."""
    found = {}
    for session in sessions:
        said = await conversation.store.history(session.id, last=6)
        found[session.id] = next((message.text for message in reversed(said) if message.role == Role.USER), "")
    return found
