"""`/approve`: let the agent do what it asked for."""

from ostler.gateway.commands.registry import Call, Command, Reply
from ostler.gateway.talk.permission import decide


async def run(call: Call) -> Reply:
    """The oldest question, or the one that is named."""
    return Reply(decide(call.conversation, call.args, allow=True))


COMMAND = Command("approve", "let the agent do what it asks for", run, usage="[NUMBER | all] [always]", overtakes=True)
