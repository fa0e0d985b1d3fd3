"""The only file that starts processes.

`Popen` with vfork and no `preexec_fn`: uvloop's own `create_subprocess_exec` forks, which stops the loop for
77 ms at 2 GB of parent memory. A thread would not help: the C code holds the GIL until the child has exec'ed.

The exit status is looked at without collecting it. The zombie keeps pid, group and session number reserved,
so that signals to the group cannot hit a stranger until `bury` says that the whole family is gone.
"""

import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from ostler.pool.process.command import Command
from ostler.pool.process.errors import (
    MissingDirectory,
    MissingProgram,
    NotPermitted,
    NotRunnable,
    ResourcesExhausted,
    StartError,
)
from ostler.pool.process.reaper.kin import Identity, read_stat

TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_EXHAUSTED = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
_NOT_RUNNABLE = {
    errno.ENOEXEC,
    errno.E2BIG,
    errno.ELOOP,
    errno.EISDIR,
    errno.ELIBBAD,
    errno.ETXTBSY,
    errno.ENAMETOOLONG,
}
_PERMISSION = {errno.EACCES, errno.EPERM}

STDOUT_PIPE = 256 * 1024
"""What an agent may have said before it has to wait for us: four times the default. A line of 20 MiB, and what other
sessions say behind it, then takes a third of the reads, two thirds of the waits for each other and three quarters of
the time. One MiB is no better, and seventy such pipes exceed what the kernel grants a user."""


class Child:
    """A started process with its three pipe ends and its pidfd. Whoever holds it must `bury` it."""

    def __init__(self, popen: "subprocess.Popen[bytes]", pidfd: int) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.pidfd = pidfd
        self.buried = False

    @property
    def pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        """stdin, stdout, stderr; unbuffered."""
        stdin, stdout, stderr = self._popen.stdin, self._popen.stdout, self._popen.stderr
        if stdin is None or stdout is None or stderr is None:
            raise ValueError("this child was started without pipes")
        return stdin, stdout, stderr

    def identify(self) -> Identity:
        """Not straight after the spawn: until the exec is through, this read of `/proc` waits for it."""
        stat = read_stat(self.pid)
        # Unless our host program collects all children, it is there as a zombie at least. 0 fits nobody.
        return Identity(self.pid, stat.start if stat else 0)

    def status(self) -> int | None:
        """Exit code, or minus the signal; None if somebody else in this program collected it. Only once it
        ended.

        """
        try:
            result = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    def signal_group(self, number: signal.Signals) -> None:
        if self.buried:
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # nobody left in the group, or only processes that have become another user's

    def set_limits(self, limits: Mapping[int, tuple[int, int]]) -> None:
        for kind, bounds in limits.items():
            resource.prlimit(self.pid, kind, bounds)

    def bury(self) -> None:
        """Collect the status and free the pid. Call when it has ended and its family is gone."""
        if not self.buried:
            self.buried = True
            self._popen.wait()
            os.close(self.pidfd)


def spawn(command: Command, mark: str) -> Child:
    """Start `command` in its own session with pipes for 0, 1 and 2, and no other descriptor. Raises
    `StartError`.

    """
    try:
        # The pipes outlive this scope by design: `Child` owns them.
        popen = subprocess.Popen(
            command.line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=command.cwd,
            env=command.marked_env(mark),
            start_new_session=True,
            close_fds=True,
        )
    except OSError as error:
        raise explain(command, error) from error
    try:
        _widen(popen.stdout)
        return Child(popen, os.pidfd_open(popen.pid))
    except OSError as error:
        os.killpg(popen.pid, signal.SIGKILL)
        popen.communicate()
        raise explain(command, error) from error


def _widen(pipe: IO[bytes] | None) -> None:
    # Refused to users who have many pipes already (`pipe-user-pages-soft`): then it stays as it is.
    with suppress(PermissionError):
        if pipe is not None:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, STDOUT_PIPE)


def spawn_watcher(argv: list[str], stdin: int) -> Child:
    """A process of our own, in its own session, that reads from `stdin` and has nothing to say.

    It starts with terminal signals blocked: until it ignores them itself, Ctrl-C must not take it with us.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
    try:
        popen = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
            close_fds=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Child(popen, os.pidfd_open(popen.pid))


def explain(command: Command, error: OSError) -> StartError:
    """An errno to the error a person can act on."""
    program = command.line[0]
    kind, reason = _diagnose(command, error, program)
    return kind(command.label, program, command.cwd, reason)


def explain_limits(command: Command, error: OSError | ValueError) -> StartError:
    reason = f"its pipes or resource limits were refused: {error}"
    kind = NotPermitted if isinstance(error, PermissionError) else StartError
    return kind(command.label, command.line[0], command.cwd, reason)


def _diagnose(command: Command, error: OSError, program: str) -> tuple[type[StartError], str]:
    at_cwd = error.filename is not None and Path(os.fsdecode(error.filename)) == command.cwd
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        if at_cwd or not command.cwd.is_dir():
            return MissingDirectory, "the working directory does not exist"
        return MissingProgram, _missing(program, command)
    if error.errno in _PERMISSION:
        return NotPermitted, f"permission denied for {'the working directory' if at_cwd else 'the program'}"
    if error.errno in _EXHAUSTED:
        return ResourcesExhausted, f"{error.strerror}; fewer processes or higher limits are needed"
    if error.errno in _NOT_RUNNABLE:
        return NotRunnable, f"{error.strerror}; not a program this machine can run"
    return StartError, str(error.strerror)


def _missing(program: str, command: Command) -> str:
    path = command.env.get("PATH", os.defpath)
    if shutil.which(program, path=path):
        return "the program exists but the interpreter it names does not"
    return "no such program" if "/" in program else f"no such program on PATH ({path})"
