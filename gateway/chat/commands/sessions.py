"""`/sessions`: the visible sessions, the last active first; with words, the messages that contain them."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.lists import LINE, session_lines, short
from ostler.gateway.chat.visibility import previews, remember_list, visible_sessions
from ostler.gateway.model.records import SearchHit

MOST = 20


async def run(call: CommandCall) -> CommandReply:
    """List the sessions, or search them if there are arguments."""
    conversation, here = call.conversation, call.conversation.session
    if call.args:
        return await search(call)
    found = await conversation.store.list_sessions(visible_sessions(conversation), limit=MOST)
    await remember_list(conversation, found)
    if not found:
        return CommandReply("There are no sessions here yet.")
    lines = session_lines(
        found,
        await previews(conversation, found),
        now=conversation.sessions.deps.wall(),
        current=here.id if here else None,
    )
    items = tuple({"type": "session", "id": session.id, "title": session.title} for session in found)
    return CommandReply("\n".join([*lines, "/resume with a number goes there."]), items)


async def search(call: CommandCall) -> CommandReply:
    """Messages that contain these words. Undone messages are not found; summarised ones are."""
    hits = await call.conversation.store.search(call.args, visible_sessions(call.conversation), limit=MOST)
    if not hits:
        return CommandReply(f"Nothing is found for {short(call.args, 100)!r}.")
    items = tuple({"type": "hit", "session": hit.session_id, "message": hit.message_id} for hit in hits)
    return CommandReply("\n".join(map(hit_line, hits)), items)


def hit_line(hit: SearchHit) -> str:
    """The session, the speaker and the excerpt of one hit."""
    return f"{hit.title or hit.session_id}, {hit.role}: {short(hit.snippet, LINE)}"


COMMAND = ChatCommand(
    "sessions", "list the sessions of this place, or search them", run, usage="[WORDS]", overtakes=True
)
