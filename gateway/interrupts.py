"""Ctrl-C, as a command takes it.

Rules:
- Until a command says otherwise, Ctrl-C ends the process by the signal itself: silently, which a shell calls 130. An
  exception from nowhere would be raised in the middle of an import, where some libraries crash on it.
- A command that has something to tidy up raises it instead, around that and nothing else: `raised`.
- Who started us with SIGINT ignored (a shell, in the background) is left his will.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def fatal() -> Iterator[None]:
    """Ctrl-C ends the process in this block."""
    with handled(signal.SIG_DFL, instead_of=signal.default_int_handler):
        yield


@contextmanager
def raised() -> Iterator[None]:
    """Ctrl-C is `KeyboardInterrupt` in this block, and what `asyncio.run` makes of it."""
    with handled(signal.default_int_handler, instead_of=signal.SIG_DFL):
        yield


@contextmanager
def handled(handler: "signal._HANDLER", *, instead_of: "signal._HANDLER") -> Iterator[None]:
    """So it is in this block, and as before behind it."""
    if signal.getsignal(signal.SIGINT) is not instead_of:
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, instead_of)
