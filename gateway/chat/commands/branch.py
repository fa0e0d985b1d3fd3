"""`/branch`: go on in a copy of this session. The original stays as it is and can be resumed."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.exclusive import exclusive, offspring
from ostler.gateway.chat.lists import name_of
from ostler.gateway.chat.session_lookup import words_of
from ostler.gateway.model.errors import TitleTaken
from ostler.gateway.model.observers import SwitchReason
from ostler.gateway.model.records import SessionOrigin, SessionQuery, SessionRecord, clean_title

SUFFIX = "(branch)"


async def run(call: CommandCall) -> CommandReply:
    """Copy, name and switch. A title that is taken is refused before the copy is made."""
    conversation, session = call.conversation, call.conversation.session
    if session is None or not session.message_count:
        return CommandReply("There is no history to branch from.")
    title = await wanted_title(call, session)
    async with exclusive(conversation, session):
        child = offspring(conversation, session, SessionOrigin.BRANCH)
        await conversation.store.derive_session(session.id, child)
        if title is not None:
            await conversation.store.set_title(child.id, title)
        branch = await conversation.switch_to(child.id, SwitchReason.BRANCH)
    text = (
        f"You are in a branch now: {name_of(branch)}. The original is kept: /resume {name_of(session)} goes back to it."
    )
    return CommandReply(text, ({"type": "session", "id": branch.id, "left": session.id},))


async def wanted_title(call: CommandCall, session: SessionRecord) -> str | None:
    """The given title; else the title of the original with a suffix, so that it does not look like its continuation."""
    store, owner = call.conversation.store, session.owner
    if not call.args:
        return None if session.title is None else await store.next_title(f"{session.title} {SUFFIX}", owner=owner)
    title = clean_title(words_of(call.args).text)
    if await store.next_title(title, owner=owner) != title:
        holder = await store.find_title(title, SessionQuery(owner=owner))
        raise TitleTaken(title, holder.id if holder else "another")
    return title


COMMAND = ChatCommand("branch", "go on in a copy of this session", run, usage="[TITLE]")
