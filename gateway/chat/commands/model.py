"""`/model`: show or change the agent and model. A change applies from the next message; the history is kept.

Rules: a listed name and `provider/model` are accepted in any case; otherwise a prefix of exactly one listed name. An
unknown or ambiguous name is refused with the possible names.
"""

from difflib import get_close_matches

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.model.errors import RequestRefused
from ostler.gateway.model.model_names import Models


class NoSuchModel(RequestRefused):
    """The typed name matches no model, or several."""


def model_named(models: Models, typed: str) -> str:
    """The name that the gateway knows the model by; or `NoSuchModel`."""
    wanted = typed.strip()
    if models.resolve(wanted) is not None:
        return wanted
    listed = models.listed()
    same = [name for name in listed if name.casefold() == wanted.casefold()]
    begun = [name for name in listed if wanted and name.casefold().startswith(wanted.casefold())]
    found = same or begun
    if len(found) == 1:
        return found[0]
    if found:
        raise NoSuchModel(f"{wanted[:80]!r} could be {', '.join(found[:5])}: type more of it.")
    near = get_close_matches(wanted, listed, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise NoSuchModel(f"There is no model {wanted[:80]!r}.{hint} There is: {models.offered()}.")


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
