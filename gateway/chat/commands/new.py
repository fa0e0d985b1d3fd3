"""`/new`: end this session and begin an empty one."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply


async def run(call: CommandCall) -> CommandReply:
    """End the session, even while a turn is running, and begin a new one."""
    conversation = call.conversation
    left = conversation.session
    fresh = await conversation.start_over()
    if left is None:
        return CommandReply(f"A new session begins: {fresh.id}.", ({"type": "session", "id": fresh.id},))
    text = f"A new session begins: {fresh.id}. The old one, {left.id}, is kept: /resume {left.id} goes back to it."
    return CommandReply(text, ({"type": "session", "id": fresh.id, "left": left.id},))


COMMAND = ChatCommand("new", "begin a new session", run, aliases=("reset",))
