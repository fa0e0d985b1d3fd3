"""`/cwd`: show or change the agent's working directory. A change applies from the next message; the history is kept."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.session_lookup import words_of


async def run(call: CommandCall) -> CommandReply:
    """Show it, or change it to a directory that the gateway and the caller's key allow."""
    conversation = call.conversation
    if not call.args:
        return CommandReply(f"The agent works in {(await conversation.transport_key()).cwd}.")
    conversation.check_idle()
    key = await conversation.override(cwd=words_of(call.args).text)
    return CommandReply(f"The agent works in {key.cwd} from the next message on.", ({"type": "cwd", "cwd": key.cwd},))


COMMAND = ChatCommand("cwd", "show or choose the directory where the agent works", run, usage="[DIRECTORY]")
