"""Errors in the configuration of memory."""

from collections.abc import Sequence
from difflib import get_close_matches

from ostler.gateway.config.errors import ConfigError

PLACE = "memory.providers"


class UnknownMemory(ConfigError):
    """No provider of this name is built in or installed."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        super().__init__(PLACE, f"there is no provider {name!r}; {hint}")
        self.name = name


class MissingExtra(ConfigError):
    """A built-in provider needs a library that is not installed."""

    def __init__(self, name: str, library: str, package: str) -> None:
        super().__init__(PLACE, f"{name!r} needs {library}, which is not installed: pip install '{package}'")
        self.name = name
        self.library = library
        self.package = package
