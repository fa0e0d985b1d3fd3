"""The tools of the bridge, and those of other packages (entry point group `ostler.tools`)."""

from collections.abc import Sequence
from functools import cache

from ostler.bridge.tool import Tool
from ostler.bridge.tools import load
from ostler.gateway.model.session_context import SessionContext


@cache
def loaded() -> tuple[Tool, ...]:
    """Return the tools, loaded once. A plug-in that cannot be loaded stops the start, not the first turn."""
    return load()


def tools(_session: SessionContext) -> Sequence[Tool]:
    """Return the tools; they are the same for every session."""
    return loaded()


SOURCE = tools
