"""Why a start was refused: from the kernel's error number to an error that a person can act on."""

import errno
import os
import shutil

from ostler.process.command import Command
from ostler.process.errors import (
    MissingDirectory,
    MissingProgram,
    NotPermitted,
    NotRunnable,
    ResourcesExhausted,
    StartError,
)

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
    program = command.full_argv[0]
    kind, reason = _diagnose(command, error, program)
    return kind(command.label, program, command.cwd, reason)


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


def _diagnose(command: Command, error: OSError, program: str) -> tuple[type[StartError], str]:
    named = "" if error.filename is None else os.fsdecode(error.filename)
    at_cwd = named == str(command.cwd) or named.startswith(OPENED)
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        if at_cwd or not os.path.isdir(command.cwd):  # noqa: PTH112 - one that cannot be looked at raises nothing here
            return MissingDirectory, "the working directory does not exist"
        return MissingProgram, _missing(program, command)
    if error.errno in _PERMISSION:
        return NotPermitted, f"permission denied for {'the working directory' if at_cwd else 'the program'}"
    if error.errno in _EXHAUSTED:
        return ResourcesExhausted, f"{error.strerror}; fewer processes, higher limits or more room are needed"
    if error.errno in _NOT_RUNNABLE:
        return NotRunnable, f"{error.strerror}; not a program this machine can run"
    return StartError, str(error.strerror)


def _missing(program: str, command: Command) -> str:
    path = command.env.get("PATH", os.defpath)
    if shutil.which(program, path=path):
        return "the program exists but the interpreter it names does not"
    return "no such program" if "/" in program else f"no such program on PATH ({path})"
