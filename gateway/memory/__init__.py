"""Memory: what is remembered from one conversation to the next, by providers of which each is one file here.

Rules:
- `load` is called once, by the composition root. Nothing is found by being imported.
- A package from outside offers a provider through the entry point group `ostler.memory`: the name is what
  `memory.providers` says, the object makes a provider of a `MemoryHome`. Installed is not enough: what it is told
  leaves our hands, so the operator names it.
- A name that leads nowhere, or to a library that is not installed, stops the start with one line that says what to do.
  A package that is there and broken costs its memory and one warning.
"""

import importlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Final

from ostler.gateway.memory.errors import MissingExtra, UnknownMemory
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
"""The library that each needs, and what pip calls it, as the extra of that name has it."""


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
    """The providers of a configuration, in its order. `given` are makers that an embedding program brings along."""
    makers, points = given or {}, installed(plugins)
    names = list(dict.fromkeys(home.settings.providers))
    check(names, points, makers)
    found: dict[str, MemoryProvider] = {}
    for name in names:
        try:
            found[name] = made(name, makers.get(name) or maker(name, points), home)
        except Exception as error:  # noqa: BLE001 - a package from outside may raise anything; the gateway starts
            why = excerpt(f"{type(error).__name__}: {error}", ERROR_LIMIT)
            log.warning("memory %s is left out, it is broken: %s", name, why)
    return found


def installed(plugins: Iterable[EntryPoint] | None) -> list[EntryPoint]:
    """What other packages offer."""
    return list(entry_points(group=GROUP) if plugins is None else plugins)


def maker(name: str, points: Iterable[EntryPoint]) -> MakeProvider:
    """What makes the provider of this name. Ours cannot be replaced by installing something."""
    if name in BUILT_IN:
        provider: MakeProvider = vars(importlib.import_module(f"{__name__}.{name}"))["PROVIDER"]
        return provider
    loaded: MakeProvider = next(point for point in points if point.name == name).load()
    return loaded


def made(name: str, make: MakeProvider, home: MemoryHome) -> MemoryProvider:
    """The provider, told where it is at home."""
    own = MemoryHome(home.folder, home.settings, home.wall, home.new_id, home.settings.options.get(name, {}))
    provider: object = make(own)
    if not isinstance(provider, MemoryProvider):
        raise TypeError(f"it made a {type(provider).__name__}, which is no MemoryProvider")
    return provider
