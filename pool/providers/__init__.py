"""One file for each kind of agent, each with a `PROVIDER`. Adding one is adding a file here, or an entry point outside.

Rules:
- `load()` is for whoever composes a gateway. Nothing is registered by importing. It looks once in a process: the files
  of every installed package are read for it, and what is installed does not change under a running program.
- A package from outside offers providers through the entry point group `ostler.providers`; the object it names is a
  `Provider`. One that does not load is an error with its name in it, not a provider less.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points

from ostler.pool.provider import Provider, by_name

GROUP = "ostler.providers"


class BadProvider(TypeError):
    """A module or an entry point that should name a provider and does not."""


@cache
def load() -> Mapping[str, Provider]:
    """Every provider there is, by name."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    ours = [_checked(module.__name__, module.PROVIDER) for module in modules]
    theirs = [_checked(point.value, point.load()) for point in entry_points(group=GROUP)]
    return by_name([*ours, *theirs])


def _checked(where: str, found: object) -> Provider:
    if not isinstance(found, Provider):
        raise BadProvider(f"{where} is to be a Provider, not {type(found).__name__}")
    return found
