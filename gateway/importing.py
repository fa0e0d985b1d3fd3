"""Importing a whole gateway, at the one moment where it is most of a command's start.

Rule: the collector of garbage rests meanwhile, for what modules are made of is none, and looking at it over and over
took an eighth of the start. Afterwards it leaves alone what is there: no full collection of a busy gateway pays for the
modules, and neither does its end, which without this took a third as long as its start.
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
