"""Every error of a child process, with the facts as attributes."""

from collections.abc import Sequence
from pathlib import Path


class ProcessError(Exception):
    """Base of the errors of this package."""


class CommandError(ProcessError, ValueError):
    """A command that no kernel would accept: empty, or with a NUL byte."""


class RuntimeDirError(ProcessError):
    """The runtime directory is not a private directory of this user."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"runtime directory {path}: {reason}; give ostler a directory of its own with mode 0700")
        self.path = path
        self.reason = reason


class StartError(ProcessError):
    """The process could not be started. Nothing of it is left."""

    def __init__(self, label: str, program: str, cwd: Path, reason: str) -> None:
        super().__init__(f"cannot start {label} ({program}) in {cwd}: {reason}")
        self.label = label
        self.program = program
        self.cwd = cwd
        self.reason = reason


class MissingProgram(StartError):
    """No such program on the child's PATH, or its interpreter is missing."""


class MissingDirectory(StartError):
    """The working directory does not exist."""


class NotPermitted(StartError):
    """The program is not executable, the directory not enterable, or a limit may not be set."""


class NotRunnable(StartError):
    """The file exists and is executable but is no program: a script without `#!`, or a binary for another machine."""


class ResourcesExhausted(StartError):
    """Out of processes, descriptors, memory or disk space; trying again later may help."""


class KeeperClosed(ProcessError):
    """A start after the supervisor began to close: nothing would end that process."""


class StdinClosed(ProcessError):
    """Bytes for a process that takes none any more: it ended, closed its stdin, or is being stopped."""

    def __init__(self, label: str, pid: int) -> None:
        super().__init__(f"stdin of {label} (pid {pid}) is closed; start another process")
        self.label = label
        self.pid = pid


class Blind(ProcessError):
    """`/proc` could not be read, for want of descriptors for instance, so it is unknown which processes are left. They
    stay in the ledger and are ended at the next start.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"cannot look for processes: {reason}; raise the limit of open files or lower max_processes")
        self.reason = reason


class Survivors(ProcessError):
    """Processes that outlasted SIGKILL; they stay in the ledger and are tried again at the next start."""

    def __init__(self, label: str, pids: Sequence[int], after: float) -> None:
        super().__init__(f"{label}: still alive {after:.1f} s after the first signal: pids {list(pids)}")
        self.label = label
        self.pids = tuple(pids)
        self.after = after
