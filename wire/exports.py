"""The public names of a package, each imported at its first use: a program that needs one module does not load all.

__getattr__, __dir__ = exports(__name__, {"Name": "module"})
"""

import sys
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
