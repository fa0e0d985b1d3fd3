"""`/stop`: end the running turn. What was said until then is kept, and the session goes on."""

from ostler.gateway.commands.registry import Call, Command, Reply


async def run(call: Call) -> Reply:
    """Only this conversation's turn, and those that wait behind it."""
    return Reply("Stopped." if call.conversation.stop() else "Nothing is running.")


COMMAND = Command("stop", "end the running turn", run, overtakes=True)
