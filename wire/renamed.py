"""Old public names, for one release: `__getattr__ = renamed(__name__, {"Old": "New"})` at the end of a module.

Rules: only for names that embedders and plugins import. The use of an old name returns the new object with a
`DeprecationWarning` that says what to write.
"""

import sys
import warnings
from collections.abc import Callable, Mapping


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a module whose names have changed."""

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{module}.{name} is now called {names[name]}; the old name goes with the next release"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return vars(sys.modules[module])[names[name]]

    return find
