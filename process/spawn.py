"""The only file that starts processes.

Rules:
- `Popen` with vfork and no `preexec_fn`: uvloop's own `create_subprocess_exec` forks, which stops the loop for 77 ms at
  2 GB of parent memory. A thread would not help: the C code holds the GIL until the child has exec'ed.
- The exit status is read without collecting it. The zombie keeps pid, group and session number reserved, so signals to
  the group cannot hit a foreign process until `reap` is called, when the whole tree is gone.
"""

import os
import resource
import select
import signal
import subprocess
from collections.abc import Mapping

from ostler.process.command import Command
from ostler.process.reaper.proc import ProcessIdentity, read_stat
from ostler.process.start_refusals import explain
from ostler.process.stdio import Stdio
from ostler.wire.descriptors import restore_open_files

TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Child:
    """A started process with its pidfd. Its holder must call `reap`."""

    def __init__(self, popen: "subprocess.Popen[bytes]", pidfd: int) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.pidfd = pidfd
        self.reaped = False

    def identify(self) -> ProcessIdentity:
        """The process's identity. Not straight after the spawn: until the exec is done, this read of `/proc` waits for
        it.
        """
        stat = read_stat(self.pid)
        # It exists at least as a zombie, unless the host program collects all children. A start time of 0 matches no
        # process.
        return ProcessIdentity(self.pid, stat.start if stat else 0)

    def has_ended(self) -> bool:
        """Ask the kernel, so this includes an end that the loop has not been told of yet."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def status(self) -> int | None:
        """Exit code, or minus the signal; None if other code in this program collected it. Only after the end."""
        try:
            result = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    def signal_group(self, number: signal.Signals) -> None:
        if self.reaped:
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # no process is left in the group, or only processes that have changed to another user

    def set_limits(self, limits: Mapping[int, tuple[int, int]]) -> None:
        for kind, bounds in limits.items():
            resource.prlimit(self.pid, kind, bounds)

    def reap(self) -> None:
        """Collect the status and free the pid. Call when the process has ended and its tree is gone."""
        if not self.reaped:
            self.reaped = True
            self._popen.wait()
            os.close(self.pidfd)


def spawn(command: Command, mark: str, stdio: Stdio, cwd: str) -> Child:
    """Start `command` in its own session with `stdio` for 0, 1 and 2, and no other descriptor. Raises `StartError`.

    `cwd` leads to the open working directory, even if its name leads elsewhere by now; a dead disk does not delay the
    exec, for which the whole program waits.
    """
    stdin, stdout, stderr = stdio.theirs
    try:
        popen = subprocess.Popen(
            command.full_argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=command.marked_env(mark),
            start_new_session=True,
            close_fds=True,
        )
    except OSError as error:
        raise explain(command, error) from error
    try:
        restore_open_files(popen.pid)
        return Child(popen, os.pidfd_open(popen.pid))
    except OSError as error:
        os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        raise explain(command, error) from error


def spawn_watcher(argv: list[str], stdin: int) -> Child:
    """Start a program of our own in its own session; it reads from `stdin` and its output is discarded.

    It starts with terminal signals blocked: until it ignores them itself, Ctrl-C must not end it together with the
    gateway.
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
