"""Memory: what providers remember from one conversation to the next. Each built-in provider is one file here.

Imports `stores`, `config`, `model` and the leaf rooms; nothing of the floors above.

Rules:
- The composition root calls `load` once. Importing registers nothing.
- Other packages offer providers through the entry point group `ostler.memory`: its name is the one that
  `memory.providers` lists, its object makes a provider from a `MemoryHome`. An installed provider is used only if the
  operator lists it, because it may send conversations elsewhere.
- An unknown name, or a missing library, stops the start with one line that says what to do. A package that is installed
  and broken costs its memory and one warning.
"""

import importlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Final

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.memory.provider import MakeProvider, MemoryHome, MemoryProvider
from ostler.gateway.memory.provider_worker import ERROR_LIMIT
from ostler.wire.redaction import excerpt

log = logging.getLogger("ostler.memory")

GROUP: Final = "ostler.memory"
BUILT_IN: Final = ("embedded", "hindsight", "honcho")
EXTRAS: Final = {
    "hindsight": ("hindsight_client", "hindsight-client>=1.1,<2"),
    "honcho": ("honcho", "honcho-ai>=2.7,<3"),
}
"""The library that each provider needs, and its requirement for pip, as in the extra of that name."""


PLACE: Final = "memory.providers"


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


def check(names: Sequence[str], plugins: Iterable[EntryPoint] | None = None, given: Iterable[str] = ()) -> None:
    """Raise what `load` would raise for these names."""
    known = {*BUILT_IN, *given, *(point.name for point in installed(plugins))}
    for name in names:
        if name not in known:
            raise UnknownMemory(name, sorted(known))
        library, package = EXTRAS.get(name, (None, ""))
        if library is not None and name not in given and find_spec(library) is None:
            raise MissingExtra(name, library, package)


def load(
    home: MemoryHome, *, plugins: Iterable[EntryPoint] | None = None, given: Mapping[str, MakeProvider] | None = None
) -> dict[str, MemoryProvider]:
    """Make the configured providers, in their order. `given` are makers that an embedding program adds."""
    makers, points = given or {}, installed(plugins)
    names = list(dict.fromkeys(home.settings.providers))
    check(names, points, makers)
    found: dict[str, MemoryProvider] = {}
    for name in names:
        try:
            found[name] = made(name, makers.get(name) or maker(name, points), home)
        except Exception as error:  # noqa: BLE001 - a foreign package may raise anything; the gateway starts
            why = excerpt(f"{type(error).__name__}: {error}", ERROR_LIMIT)
            log.warning("memory %s is left out, it is broken: %s", name, why)
    return found


def installed(plugins: Iterable[EntryPoint] | None) -> list[EntryPoint]:
    """The entry points of other packages."""
    return list(entry_points(group=GROUP) if plugins is None else plugins)


def maker(name: str, points: Iterable[EntryPoint]) -> MakeProvider:
    """The maker of the provider with this name. An installed package cannot replace a built-in provider."""
    if name in BUILT_IN:
        provider: MakeProvider = vars(importlib.import_module(f"{__name__}.{name}"))["PROVIDER"]
        return provider
    loaded: MakeProvider = next(point for point in points if point.name == name).load()
    return loaded


def made(name: str, make: MakeProvider, home: MemoryHome) -> MemoryProvider:
    """Make a provider with its own options. Raises `TypeError` if the result is no `MemoryProvider`."""
    own = MemoryHome(home.folder, home.settings, home.wall, home.new_id, home.settings.options.get(name, {}))
    provider: object = make(own)
    if not isinstance(provider, MemoryProvider):
        raise TypeError(f"it made a {type(provider).__name__}, which is no MemoryProvider")
    return provider
