"""The slash commands of every chat face, one file each with a `COMMAND`. Adding one is adding a file here, or an entry
point outside.

Rules:
- `load()` is called once, by whoever composes the gateway. Nothing is registered by importing.
- A package from outside offers commands through the entry point group `ostler.commands`. One that does not load, or
  that takes a name which is taken, is an error with its name in it, not a command less.
- A command speaks to its `Call` and to nothing else: it knows no face, and every face can run it.
"""

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points

from ostler.gateway.chat.commands.registry import BadCommand, ChatCommand, Registry

GROUP = "ostler.commands"
NOT_COMMANDS = frozenset({"registry"})


@cache
def load() -> Registry:
    """Every command there is. It looks once in a process, as for providers."""
    found = [name for _, name, _ in pkgutil.iter_modules(__path__) if name not in NOT_COMMANDS]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in found]
    ours = [_checked(module.__name__, module.COMMAND) for module in modules]
    theirs = [_checked(point.value, point.load()) for point in entry_points(group=GROUP)]
    return Registry([*ours, *theirs])


def _checked(where: str, found: object) -> ChatCommand:
    if not isinstance(found, ChatCommand):
        raise BadCommand(f"{where} is to be a Command, not {type(found).__name__}")
    return found
