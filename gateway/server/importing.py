"""Speeds up the import of the gateway, which is most of a command's start.

Rules:
- The garbage collector is disabled during imports: module objects are never garbage, and scanning them took an eighth
  of the start. Afterwards existing objects are frozen: no full collection of a busy gateway scans the modules, and
  neither does its exit, which otherwise took a third as long as its start.
- `rich` is hidden during imports: if it is installed, structlog imports it for coloured tracebacks, which we do not
  use, and that took a twelfth of the start. Later imports find it. Only for a process of our own: a host program may
  want those colours.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Wraps the imports of a command, in a process that runs nothing else."""
    gc.disable()
    try:
        with absent("rich"):
            yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def absent(name: str) -> Iterator[None]:
    """Make a module impossible to import within the block. A module that was already imported stays."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # None tells the import system that there is no such module
    try:
        yield
    finally:
        del sys.modules[name]
