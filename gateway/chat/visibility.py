"""What a conversation may see of other sessions, and the list that numbers are taken from.

Rules:
- A person sees sessions of their own, in the same chat of the same platform; the holder of an administrator's key all.
  Without keys everybody may operate the gateway, but nobody has said whose conversations are whose: the chat holds.
- A list is kept with its key, durably: the number somebody types next week, or after a restart, is the one they saw.
"""

from collections.abc import Sequence

from ostler.gateway.chat.conversation import ChatConversation
from ostler.gateway.model.records import Role, SessionQuery, SessionRecord

LISTED = "listed:"
API = "api"
"""The platform of the OpenAI API, where there are no chats: a client names its conversations as it likes."""


def visible_sessions(conversation: ChatConversation, *, titled: bool | None = None) -> SessionQuery:
    """The sessions that exist for this conversation."""
    if conversation.caller.admin and conversation.caller.name:
        return SessionQuery(platform=None if titled is None else conversation.platform, titled=titled)
    chat = None if conversation.platform == API else conversation.chat
    return SessionQuery(conversation.platform, conversation.owner, chat, titled=titled)


async def remember_list(conversation: ChatConversation, sessions: Sequence[SessionRecord]) -> None:
    """These were shown, in this order."""
    ids = [session.id for session in sessions]
    await conversation.store.set_mark(LISTED + conversation.key.stored, {"sessions": ids})


async def remembered_list(conversation: ChatConversation) -> list[str] | None:
    """The ids of the list that was shown last; None where none was."""
    name = LISTED + conversation.key.stored
    mark = (await conversation.store.marks(name)).get(name)
    found = None if mark is None else mark.get("sessions")
    return [str(session_id) for session_id in found] if isinstance(found, list) else None


async def previews(conversation: ChatConversation, sessions: Sequence[SessionRecord]) -> dict[str, str]:
    """The last thing the person said in each."""
    found = {}
    for session in sessions:
        said = await conversation.store.history(session.id, last=6)
        found[session.id] = next((message.text for message in reversed(said) if message.role == Role.USER), "")
    return found
