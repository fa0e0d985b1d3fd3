"""Providers: one file per kind of agent, each with a `PROVIDER`. To add one, add a file here or an entry point outside.

Rules:
- May import the modules at the top of `pool` and `ostler.demo`; never `pool.agent`, `pool.launch` or `pool.runner`
  (import-linter).
- The composition root calls `load()`. Importing registers nothing. `load` searches once per process: it reads the
  metadata of every installed package, and installed packages do not change under a running program.
- A package from outside offers providers through the entry point group `ostler.providers`; the object it names is a
  `Provider`. One that fails to load raises; it is not silently left out.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from ostler.pool.provider import Provider, by_name

GROUP = "ostler.providers"


class BadProvider(TypeError):
    """A module or an entry point that should define a provider does not."""


@cache
def load() -> Mapping[str, Provider]:
    """All providers by name, built-in and installed. Raises `BadProvider`."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    ours = [_checked(module.__name__, module.PROVIDER) for module in modules]
    return by_name([*ours, *map(_plugged_in, entry_points(group=GROUP))])


def _plugged_in(point: EntryPoint) -> Provider:
    try:
        found = point.load()
    except Exception as error:  # a package of others: whatever it raises, the operator must learn which one it was
        raise BadProvider(f"{point.value} could not be loaded: {type(error).__name__}: {error}") from error
    return _checked(point.value, found)


def _checked(where: str, found: object) -> Provider:
    if not isinstance(found, Provider):
        raise BadProvider(f"{where} is to be a Provider, not {type(found).__name__}")
    return found
