"""`/approve`: let the agent do what it asked for."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.permission import decide


async def run(call: CommandCall) -> CommandReply:
    """Allow the oldest open permission request, or the named ones."""
    return CommandReply(decide(call.conversation, call.args, allow=True))


COMMAND = ChatCommand(
    "approve", "let the agent do what it asks for", run, usage="[NUMBER | all] [always]", overtakes=True
)
