"""Why a start was refused: from the kernel's error number to an error that a person can act on.

Rules: nothing here looks at a disk but `_look_again`, which runs on a thread.
"""

import errno
import os
import shutil
from functools import partial

from ostler.process.command import Command
from ostler.process.errors import (
    MissingDirectory,
    MissingProgram,
    NotPermitted,
    NotRunnable,
    ResourcesExhausted,
    StartError,
)
from ostler.process.probe import PATIENCE, BlockingProbe, ProbeFailed

_EXHAUSTED = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT}
_NOT_RUNNABLE = {
    errno.ENOEXEC,
    errno.E2BIG,
    errno.ELOOP,
    errno.EISDIR,
    errno.ELIBBAD,
    errno.ETXTBSY,
    errno.ENAMETOOLONG,
}
OPENED = "/proc/self/fd/"
_PERMISSION = {errno.EACCES, errno.EPERM}


def explain(command: Command, error: OSError) -> StartError:
    """Turn an errno into an error that a person can act on."""
    kind, reason = _diagnose(command, error)
    return kind(command.label, command.full_argv[0], command.cwd, reason)


def explain_directory(command: Command, error: OSError) -> StartError:
    """Say why the working directory could not be entered."""
    kind, reason = StartError, f"the working directory cannot be entered: {error.strerror}"
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        kind, reason = MissingDirectory, "the working directory does not exist"
    elif error.errno in _PERMISSION:
        kind, reason = NotPermitted, "permission denied for the working directory"
    elif error.errno in _EXHAUSTED:
        kind = ResourcesExhausted
    return kind(command.label, command.full_argv[0], command.cwd, reason)


def explain_limits(command: Command, error: OSError | ValueError) -> StartError:
    reason = f"its pipes or resource limits were refused: {error}"
    kind = NotPermitted if isinstance(error, PermissionError) else _shortage_or_not(error)
    return kind(command.label, command.full_argv[0], command.cwd, reason)


def explain_ledger(command: Command, error: OSError) -> StartError:
    reason = f"it cannot be written down in the spawn ledger, and nothing is started that nobody would end: {error}"
    return _shortage_or_not(error)(command.label, command.full_argv[0], command.cwd, reason)


def explain_record(command: Command, error: OSError | ValueError) -> StartError:
    reason = f"it had started, but who it is could not be written down in the spawn ledger, so it was ended: {error}"
    return _shortage_or_not(error)(command.label, command.full_argv[0], command.cwd, reason)


def _shortage_or_not(error: OSError | ValueError) -> type[StartError]:
    return ResourcesExhausted if isinstance(error, OSError) and error.errno in _EXHAUSTED else StartError


def _diagnose(command: Command, error: OSError) -> tuple[type[StartError], str]:
    named = "" if error.filename is None else os.fsdecode(error.filename)
    at_cwd = named == str(command.cwd) or named.startswith(OPENED)
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        if at_cwd:
            return MissingDirectory, "the working directory does not exist"
        return MissingProgram, _not_there(command)
    if error.errno in _PERMISSION:
        return NotPermitted, f"permission denied for {'the working directory' if at_cwd else 'the program'}"
    if error.errno in _EXHAUSTED:
        return ResourcesExhausted, f"{error.strerror}; fewer processes, higher limits or more room are needed"
    if error.errno in _NOT_RUNNABLE:
        return NotRunnable, f"{error.strerror}; not a program this machine can run"
    return StartError, str(error.strerror)


async def explain_missing(command: Command, probe: BlockingProbe[tuple[type[StartError], str]]) -> StartError:
    """Say what was missing of a program that was not found. A disk that does not answer adds nothing."""
    program = command.full_argv[0]
    try:
        kind, reason = await probe.find((program, command.cwd), partial(_look_again, command), PATIENCE)
    except ProbeFailed:
        kind, reason = MissingProgram, _not_there(command)
    return kind(command.label, program, command.cwd, reason)


def _look_again(command: Command) -> tuple[type[StartError], str]:
    if not os.path.isdir(command.cwd):  # noqa: PTH112 - one that cannot be looked at raises nothing here
        return MissingDirectory, "the working directory does not exist"
    if shutil.which(command.full_argv[0], path=_path(command)):
        return MissingProgram, "the program exists but the interpreter it names does not"
    return MissingProgram, _not_there(command)


def _not_there(command: Command) -> str:
    program = command.full_argv[0]
    return "no such program" if "/" in program else f"no such program on PATH ({_path(command)})"


def _path(command: Command) -> str:
    return command.env.get("PATH", os.defpath)
