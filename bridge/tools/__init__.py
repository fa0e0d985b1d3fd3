"""Built-in tools, one module each with a `TOOL`, and tools of other packages by the entry point group `ostler.tools`.

Rules: importing this package loads no tool; the composition root calls `load` once. A plug-in that cannot be loaded is
named and stops the start: a tool that is silently absent is worse.
"""

import importlib
import pkgutil
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from ostler.bridge.errors import BridgeError
from ostler.bridge.tool import Tool
from ostler.bridge.toolbelt import by_name

GROUP = "ostler.tools"


class ToolNotLoaded(BridgeError):
    """A module or entry point defines no `Tool`, or fails to import."""

    def __init__(self, source: str, detail: str) -> None:
        self.source = source
        self.detail = detail
        super().__init__(f"no tool from {source}: {detail}")


def load(plugins: Iterable[EntryPoint] | None = None) -> tuple[Tool, ...]:
    """The built-in tools, then those of plug-ins (default: all installed). Raises `ToolNotLoaded`, `DuplicateTool`."""
    found = [_built_in(name) for _, name, _ in pkgutil.iter_modules(__path__)]
    found += [_plugged_in(entry) for entry in (entry_points(group=GROUP) if plugins is None else plugins)]
    return tuple(by_name(found).values())


def _built_in(name: str) -> Tool:
    module = importlib.import_module(f"{__name__}.{name}")
    return _checked(module.__name__, vars(module).get("TOOL"))


def _plugged_in(entry: EntryPoint) -> Tool:
    source = f"the entry point {entry.name} = {entry.value}"
    try:
        loaded: object = entry.load()
    except Exception as error:
        raise ToolNotLoaded(source, f"{type(error).__name__}: {error}") from error
    return _checked(source, loaded)


def _checked(source: str, found: object) -> Tool:
    if not isinstance(found, Tool):
        raise ToolNotLoaded(source, f"it has no Tool (found {type(found).__name__})")
    return found
