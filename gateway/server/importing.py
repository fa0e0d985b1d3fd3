"""Importing a whole gateway, at the one moment where it is most of a command's start.

Rules:
- The collector of garbage rests meanwhile, for what modules are made of is none, and looking at it over and over took
  an eighth of the start. Afterwards it leaves alone what is there: no full collection of a busy gateway pays for the
  modules, and neither does its end, which without this took a third as long as its start.
- `rich` is not found meanwhile: where it is installed, structlog imports it for the colours of tracebacks that we
  render without it, and that took a twelfth of the start. Whoever imports it afterwards gets it. Only in a process of
  our own: a host may want those colours.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Around the imports, in a process that lives for them."""
    gc.disable()
    try:
        with absent("rich"):
            yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def absent(name: str) -> Iterator[None]:
    """Nobody can import this module meanwhile; one that was imported before stays."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # so is the import system told that there is none
    try:
        yield
    finally:
        del sys.modules[name]
