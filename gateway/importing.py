"""Importing a whole gateway, at the one moment where it is most of a command's start.

Rule: the collector of garbage rests meanwhile, for what modules are made of is none: looking at it over and over took an
eighth of the start. Afterwards it leaves alone what is there, so no full collection of a busy gateway pays for
the modules either.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Around the imports, in a process that lives for them."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
