"""`/history`: the last messages of this session, the newest at the end."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.lists import counted, message_lines

USUAL = 10
MOST = 200


async def run(call: CommandCall) -> CommandReply:
    """Show the last N messages."""
    wanted = call.args or str(USUAL)
    if not (wanted.isascii() and wanted.isdigit()) or not int(wanted[:9]):
        return CommandReply("Use /history N with N messages, 1 or more.")
    session = call.conversation.session
    if session is None or not session.message_count:
        return CommandReply("Nothing was said in this session yet.")
    messages = await call.conversation.store.history(session.id, last=min(int(wanted[:9]), MOST))
    earlier = session.message_count - len(messages)
    before = [f"({counted(earlier, 'earlier message')})"] if earlier > 0 else []
    items = tuple(
        {"type": "message", "id": message.id, "role": message.role, "text": message.text} for message in messages
    )
    return CommandReply("\n".join([*before, *message_lines(messages)]), items)


COMMAND = ChatCommand("history", "show what was said in this session", run, usage="[N]", overtakes=True)
