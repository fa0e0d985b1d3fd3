"""Turns what a command raises into an exit code and at most one sentence on stderr.

Rules:
- An expected error (the error roots of our rooms, and `OSError`) is printed as one sentence on stderr and gives
  `FAILED`; its traceback is logged at level debug. Any other exception is a bug of ours and is shown with its
  traceback.
- A reader that closes our output early (head, less) is not a failure: the command writes nothing more, not even at the
  exit, and returns `DONE`.
- This module imports only the standard library until something has gone wrong: every command pays for this file.
"""

import os
import sys
from collections.abc import Callable

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130


def carried_out(name: str, work: Callable[[], int]) -> int:
    """Return the exit code of `work`, whether it returns, loses its reader or is interrupted."""
    try:
        try:
            return spoken(name, work)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED


def spoken(name: str, work: Callable[[], int]) -> int:
    """Run `work`; print an expected error as one sentence and return `FAILED`."""
    try:
        return work()
    except foreseen() as error:
        if isinstance(error, BrokenPipeError) and reader_left():
            raise
        note(error)
        print(f"{name}: {sentence(error)}", file=sys.stderr)
        return FAILED


def reader_left() -> bool:
    """Whether the reader of stdout has closed it, and not the peer of a socket."""
    import select  # noqa: PLC0415 - see the rules

    look = select.poll()
    look.register(sys.stdout.fileno(), 0)
    return any(events & select.POLLERR for _, events in look.poll(0))


def foreseen() -> tuple[type[Exception], ...]:
    """Return the error roots of our rooms. Imports them only now, after something was raised."""
    from ostler.bridge.errors import BridgeError  # noqa: PLC0415 - see the rules
    from ostler.gateway.model.errors import GatewayError  # noqa: PLC0415 - see the rules
    from ostler.pool.errors import PoolError  # noqa: PLC0415 - see the rules
    from ostler.process.errors import ProcessError  # noqa: PLC0415 - see the rules

    return (GatewayError, PoolError, BridgeError, ProcessError, OSError)


def note(error: Exception) -> None:
    """Log the traceback at level debug, for a user who wants to find the cause."""
    import logging  # noqa: PLC0415 - see the rules

    logging.getLogger(__name__).debug("the command failed", exc_info=error)


def sentence(error: Exception) -> str:
    """Return the error as text. An `OSError` is shown without its errno, which means nothing to a user."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
