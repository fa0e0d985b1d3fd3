"""`/undo`: take back the last turns. They stay stored, outside the transcript and the search."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.exclusive import exclusive
from ostler.gateway.chat.lists import LINE, counted, short
from ostler.gateway.chat.rewinding import first_undone, questions, turns_wanted

NOTHING = "There is nothing to take back."


async def run(call: CommandCall) -> CommandReply:
    """Take back N turns, or all if there are fewer."""
    conversation, turns = call.conversation, turns_wanted(call.args)
    if turns is None:
        return CommandReply("Use /undo N with a whole number of turns. Nothing was changed.")
    session = conversation.session
    if session is None:
        return CommandReply(NOTHING)
    async with exclusive(conversation, session):
        store = conversation.store
        first = first_undone(await store.history(session.id), turns)
        if first is None:
            return CommandReply(NOTHING)
        gone = await store.deactivate_from(session.id, first.id)
        await conversation.rewound()
    taken = len(questions(gone))
    text = f"{counted(taken, 'turn')} taken back. You had said: {short(first.text, LINE)}"
    return CommandReply(text, ({"type": "undone", "turns": taken, "text": first.text},))


COMMAND = ChatCommand("undo", "take back the last turns", run, usage="[N]")
