"""`/stop`: cancel the running turn. Its answer so far is kept, and the session goes on."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply


async def run(call: CommandCall) -> CommandReply:
    """Cancel the running turn of this conversation and those queued behind it."""
    return CommandReply("Stopped." if call.conversation.stop() else "Nothing is running.")


COMMAND = ChatCommand("stop", "end the running turn", run, overtakes=True)
