"""What Ctrl-C does while a command runs.

Rules:
- By default Ctrl-C ends the process by the signal itself: silently, and a shell reports 130. An exception could be
  raised in the middle of an import, where some libraries crash on it.
- A command that has something to clean up uses `raised` to get `KeyboardInterrupt` instead, around that code only.
- If SIGINT was ignored when the process started (a background job of a shell), it stays ignored.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def fatal() -> Iterator[None]:
    """In this block Ctrl-C ends the process."""
    with handled(signal.SIG_DFL, instead_of=signal.default_int_handler):
        yield


@contextmanager
def raised() -> Iterator[None]:
    """In this block Ctrl-C raises `KeyboardInterrupt`, or cancels the main task under `asyncio.run`."""
    with handled(signal.default_int_handler, instead_of=signal.SIG_DFL):
        yield


@contextmanager
def handled(handler: "signal._HANDLER", *, instead_of: "signal._HANDLER") -> Iterator[None]:
    """Install `handler` for the block and restore `instead_of` afterwards. No-op if SIGINT is handled in any other
    way."""
    if signal.getsignal(signal.SIGINT) is not instead_of:
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, instead_of)
