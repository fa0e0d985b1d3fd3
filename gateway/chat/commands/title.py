"""`/title`: show or set the title of this session. `/resume` finds sessions by title."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.session_lookup import words_of


async def run(call: CommandCall) -> CommandReply:
    """Show or set it. The store refuses an invalid title, or one that another session has."""
    conversation = call.conversation
    if not call.args:
        session = conversation.session
        title = session.title if session else None
        return CommandReply(
            f"This session is called {title}." if title else "This session has no title; /title NAME sets one."
        )
    session = await conversation.begun()
    conversation.session = session = await conversation.store.set_title(session.id, words_of(call.args).text)
    return CommandReply(f"This session is called {session.title} now.", ({"type": "session", "id": session.id},))


COMMAND = ChatCommand("title", "show or set the title of this session", run, usage="[TITLE]")
