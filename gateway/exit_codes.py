"""How a command ends: what it raises becomes an exit code and at most one sentence.

Rules:
- What was foreseen (errors of our rooms, and what the system says no to) is a sentence on stderr and `FAILED`; its
  trace is in the log at level debug. Anything else is a bug of ours, and is seen with its trace.
- Whoever read our output and has seen enough (head, less) is no failure: nothing more is written, not even at the exit.
- Imports nothing but the standard library before something has gone wrong: every command pays for this file.
"""

import os
import sys
from collections.abc import Callable

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130


def carried_out(name: str, work: Callable[[], int]) -> int:
    """The exit code of `work`, whatever comes of it."""
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
    """What was foreseen, in a sentence."""
    try:
        return work()
    except BrokenPipeError:
        raise
    except foreseen() as error:
        note(error)
        print(f"{name}: {sentence(error)}", file=sys.stderr)
        return FAILED


def foreseen() -> tuple[type[Exception], ...]:
    """The roots of what our rooms raise. Asked for only when something was raised."""
    from ostler.bridge.errors import BridgeError  # noqa: PLC0415 - see the rules
    from ostler.gateway.model.errors import GatewayError  # noqa: PLC0415 - see the rules
    from ostler.pool.errors import PoolError  # noqa: PLC0415 - see the rules
    from ostler.process.errors import ProcessError  # noqa: PLC0415 - see the rules

    return (GatewayError, PoolError, BridgeError, ProcessError, OSError)


def note(error: Exception) -> None:
    """For whoever looks for the place."""
    import logging  # noqa: PLC0415 - see the rules

    logging.getLogger(__name__).debug("the command failed", exc_info=error)


def sentence(error: Exception) -> str:
    """In words, without a number that only programs know."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
