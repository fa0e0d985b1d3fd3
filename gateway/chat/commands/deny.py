"""`/deny`: refuse what the agent asked to do. The turn goes on without it."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.permission import decide


async def run(call: CommandCall) -> CommandReply:
    """Deny the oldest open permission request, or the named ones."""
    return CommandReply(decide(call.conversation, call.args, allow=False))


COMMAND = ChatCommand("deny", "do not let the agent do what it asks for", run, usage="[NUMBER | all]", overtakes=True)
