"""The slash commands, one file each with a `COMMAND`. A new command needs one file here, or an entry point elsewhere.

Rules:
- The composition root calls `load()` once. Importing registers nothing.
- Other packages offer commands through the entry point group `ostler.commands`. A command that does not load, or whose
  name is taken, is an error that names it; it is not skipped.
- A command uses its `CommandCall` only. It knows no chat surface, so every surface can run it.
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
    """All commands, ours and those of entry points. Cached per process, as for providers."""
    found = [name for _, name, _ in pkgutil.iter_modules(__path__) if name not in NOT_COMMANDS]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in found]
    ours = [_checked(module.__name__, module.COMMAND) for module in modules]
    theirs = [_checked(point.value, point.load()) for point in entry_points(group=GROUP)]
    return Registry([*ours, *theirs])


def _checked(where: str, found: object) -> ChatCommand:
    if not isinstance(found, ChatCommand):
        raise BadCommand(f"{where} is to be a Command, not {type(found).__name__}")
    return found
