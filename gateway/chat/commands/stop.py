"""`/stop`: end the running turn. What was said until then is kept, and the session goes on."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply


async def run(call: CommandCall) -> CommandReply:
    """Only this conversation's turn, and those that wait behind it."""
    return CommandReply("Stopped." if call.conversation.stop() else "Nothing is running.")


COMMAND = ChatCommand("stop", "end the running turn", run, overtakes=True)
