"""Public names of packages and modules that are found when they are asked for.

    __getattr__, __dir__ = exports(__name__, {"Name": "module"})    in a package: a name is imported at its first use
    __getattr__ = renamed(__name__, {"Old": "New"})                 at the end of a module: an old name, for one release

Rules: a program that needs one module of a package does not load all. Only names that embedders and plugins import are
kept after a renaming; the use of an old one returns the new object with a `DeprecationWarning` that says what to write.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module


def exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package; `homes` names the module of each public name."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    def names() -> list[str]:
        return sorted([*vars(sys.modules[package]), *homes])

    return find, names


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a module whose names have changed."""

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{module}.{name} is now called {names[name]}; the old name goes with the next release"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return vars(sys.modules[module])[names[name]]

    return find
