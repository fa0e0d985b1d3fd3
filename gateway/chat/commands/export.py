"""`/export`: the transcript of this session, as Markdown or JSON lines."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.exports import FORMATS

USUAL = "markdown"


async def run(call: CommandCall) -> CommandReply:
    """Reply with the whole transcript."""
    make = FORMATS.get(call.args.lower() or USUAL)
    if make is None:
        return CommandReply(f"Use /export FORMAT with one of {', '.join(FORMATS)}.")
    session = call.conversation.session
    messages = [] if session is None else await call.conversation.store.history(session.id)
    if session is None or not messages:
        return CommandReply("Nothing was said in this session yet.")
    return CommandReply(make(session, messages))


COMMAND = ChatCommand(
    "export", "show the whole transcript, to take away", run, usage="[markdown | jsonl]", overtakes=True
)
