"""Old public names, for one release: `__getattr__ = renamed(__name__, {"Old": "New"})` at the end of a module.

Rules: only what embedders and plugins import. Who uses an old name gets the new thing and a `DeprecationWarning` that
says what to write.
"""

import sys
import warnings
from collections.abc import Callable, Mapping


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a module that had other names."""

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{module}.{name} is now called {names[name]}; the old name goes with the next release"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return vars(sys.modules[module])[names[name]]

    return find
