"""`/retry`: ask the last question again. The old answer stays stored, outside the transcript."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.question import question_of
from ostler.gateway.chat.rewinding import questions


async def run(call: CommandCall) -> CommandReply:
    """Prompt with the stored parts of the question. The turn itself removes the old answer before it prompts the
    agent."""
    conversation = call.conversation
    conversation.check_idle()
    session = conversation.session
    asked = questions(await conversation.store.history(session.id)) if session is not None else []
    if not asked:
        return CommandReply("There is no question to ask again.")
    return CommandReply("", ask=question_of(asked[-1]))


COMMAND = ChatCommand("retry", "ask the last question once more", run, asks=True)
