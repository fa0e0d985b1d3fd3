"""The gateway's own tools for agent sessions: one module each with a `SOURCE`, found by one explicit `load`.

Rules:
- A source is a function from a session to the tools it gets (`gateway/turns/toolset.py`).
- A tool learns from the call itself which session it serves (`ToolContext.session` is the `SessionContext`), and gets
  other parts by `ToolContext.service`.
- Importing a module registers nothing; a session gets what `tools.own` names, and nothing else.
"""

import importlib
import pkgutil

from ostler.gateway.model.errors import GatewayError
from ostler.gateway.turns.toolset import ToolSource


class SourceMissing(GatewayError):
    """A module of this folder has no usable `SOURCE`."""

    def __init__(self, module: str) -> None:
        self.module = module
        super().__init__(f"{module} has no SOURCE: a function from a session to its tools")


def load() -> tuple[ToolSource, ...]:
    """Return every source, in the order of the modules' names. Raises `SourceMissing`."""
    return tuple(_source(name) for _, name, _ in pkgutil.iter_modules(__path__))


def _source(name: str) -> ToolSource:
    module = importlib.import_module(f"{__name__}.{name}")
    found: object = vars(module).get("SOURCE")
    if not callable(found):
        raise SourceMissing(module.__name__)
    source: ToolSource = found
    return source
