"""`/model`: show or change the agent and model. A change applies from the next message; the history is kept."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.naming import model_named


async def run(call: CommandCall) -> CommandReply:
    """Show the model and the choices, or change it."""
    conversation, models = call.conversation, call.conversation.chat_deps.places.models
    if not call.args:
        key = await conversation.transport_key()
        return CommandReply(f"Answered by {key.provider}/{key.model}. There is: {models.offered()}.")
    conversation.check_idle()
    key = await conversation.override(model=model_named(models, call.args))
    name = f"{key.provider}/{key.model}"
    return CommandReply(f"Answered by {name} from the next message on.", ({"type": "model", "model": name},))


COMMAND = ChatCommand("model", "show or choose the model that answers", run, usage="[MODEL]")
