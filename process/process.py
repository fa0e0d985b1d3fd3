"""One agent process: started, written to, read from, stopped, and reaped with its whole process tree.

Rules:
- Its end is detected by pidfd and reported once to the listener: when stdout and stderr have reached EOF, or shortly
  after the end if a grandchild holds them open.
- However it ended, its process tree (own groups, own sessions, double forks) is ended after it, and only then are the
  pid freed and the ledger entry removed. The supervisor owns that task, so no caller can cancel it. If that fails, the
  pid stays reserved, so that the next try cannot mistake another session for the tree's.
- Any process that holds its stdout or stderr open after all of them belongs to the tree too.
- `stop` runs one stop sequence for all its callers, and cancelling a caller does not cancel the sequence.
"""

import asyncio
import contextlib
import logging
import signal
from typing import Any, Protocol

from ostler.process.command import Command
from ostler.process.ending import Ending, Exit, StopDeadlines, StopStep
from ostler.process.environment import secret_values
from ostler.process.errors import Blind, MissingProgram, StdinClosed, Survivors
from ostler.process.folder import Descriptor, Folder
from ostler.process.pipes import Inflow, Outflow, Pipes
from ostler.process.probe import BlockingProbe
from ostler.process.reaper.proc import ProcessIdentity
from ostler.process.reaper.signals import ProcessTree
from ostler.process.spawn import Child, spawn
from ostler.process.start_refusals import (
    explain_directory,
    explain_ledger,
    explain_limits,
    explain_missing,
    explain_record,
)
from ostler.process.stderr import StderrTail
from ostler.process.stdio import Stdio
from ostler.process.supervisor import ProcessSupervisor
from ostler.process.tree import TreeMemory, measure
from ostler.wire.portions import SIZE
from ostler.wire.redaction import Redaction

log = logging.getLogger(__name__)

LINGER = 0.25
LINGERS = 20
"""The report of an end waits for undelivered output at most this many times LINGER."""
EXEC_TIME = 0.002  # half a millisecond is usual; more only costs latency, less may block the loop
MUTE = 1.0
DEFAULT_DEADLINES = StopDeadlines()
TAIL = 20


class ProcessListener(Protocol):
    """Receives the output and the end of a process. Called on the loop, never concurrently."""

    def stdout_received(self, data: bytes) -> None: ...

    def writable(self, ok: bool) -> None:
        """Whether stdin takes more bytes; after False, hold back until True."""

    def process_exited(self, exit: Exit) -> None:  # noqa: A002 (the word of this package)
        """The process has ended; called once."""


class AgentProcess:
    """A running agent process, made by `start`."""

    def __init__(
        self,
        command: Command,
        child: Child,
        stdio: Stdio,
        number: int,
        *,
        listener: ProcessListener,
        supervisor: ProcessSupervisor,
    ) -> None:
        self.command = command
        self.pid = child.pid
        self.identity = ProcessIdentity(child.pid, 0)
        self.exit: Exit | None = None
        self._child = child
        self._number = number
        self._listener = listener
        self._supervisor = supervisor
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self._ended_at = 0.0
        since = supervisor.run.owner.start
        self._tree = ProcessTree(
            supervisor.mark(number), (), vouched=True, pipe_inodes=[stdio.pipe_inodes], since=since
        )
        self._tail = StderrTail(Redaction((*command.secrets, *secret_values(command.env))))
        self._pipes = Pipes(
            Inflow(listener.stdout_received, self._on_end_of_pipe),
            # Lines of stderr cost nothing until they are read.
            Inflow(self._tail.feed, self._on_end_of_pipe, lines=SIZE),
            Outflow(listener.writable),
            stdio.take(),
        )
        self._status: int | None = None
        self._act = Ending.BY_ITSELF
        self._held = False
        self._ended = asyncio.Event()
        self._reported = asyncio.Event()
        self._stop: asyncio.Task[Exit] | None = None
        self._reaping: asyncio.Task[None] | None = None
        self._listening = False
        self._sweep_grace, self._bound = DEFAULT_DEADLINES.sweep_grace, DEFAULT_DEADLINES.kill

    @classmethod
    async def start(
        cls, command: Command, listener: ProcessListener, *, supervisor: ProcessSupervisor, cwd: str | None = None
    ) -> "AgentProcess":
        """Start the process. Raises a `StartError`. Failed or cancelled at any point, it leaves no process and no
        descriptor.

        `cwd` leads to the working directory that `open_folder` opened; None: the directory's name is followed.
        """
        with Stdio(command) as stdio:
            try:
                number = supervisor.announce(command.label, stdio.pipe_inodes)
            except OSError as error:
                raise explain_ledger(command, error) from error
            try:
                child = spawn(command, supervisor.mark(number), stdio, cwd or str(command.cwd))
            except MissingProgram as error:
                supervisor.forget(number)
                raise await explain_missing(command, supervisor.missing_programs) from error
            except BaseException:
                supervisor.forget(number)
                raise
            supervisor.track_pid(number, child.pid)
            process = cls(command, child, stdio, number, listener=listener, supervisor=supervisor)
        supervisor.adopt(number, process)
        # The supervisor's task, not the caller's: cancelled halfway, a pipe end would have two owners or none.
        attached = supervisor.hold(process._attach())
        try:
            await asyncio.shield(attached)
        except BaseException:
            await process._abandon()
            raise
        return process

    @property
    def is_alive(self) -> bool:
        return not self._ended.is_set()

    @property
    def stopping(self) -> bool:
        """Whether a stop is under way: the process takes no more input, and its end is taken care of."""
        return self._stop is not None

    def has_ended(self) -> bool:
        """Whether the process has ended, even if the loop has not been told yet: ask before sending something that must
        not be lost.
        """
        return self._ended.is_set() or self._child.has_ended()

    def write(self, data: bytes) -> None:
        """Write to stdin. Buffers without bound: respect `writable`. Raises `StdinClosed`."""
        self._require_stdin()
        self._pipes.write(data)

    def stderr_tail(self, count: int = TAIL) -> list[str]:
        return self._tail.tail(count)

    def memory(self) -> TreeMemory:
        """Measure the tree's memory. Blocking reads of `/proc`: run it in a thread. It also remembers the tree's
        members, which the stop needs.
        """
        return measure(stat.pid for stat in self._tree.find(self._supervisor.take_census()) if not stat.dead)

    def kill(self) -> None:
        """SIGKILL to the group, now. The tree is ended and the exit reported as after any other end."""
        if self.is_alive:
            self._act = Ending.ON_KILL
        self._child.signal_group(signal.SIGKILL)

    async def stop(self, deadlines: StopDeadlines = DEFAULT_DEADLINES) -> Exit:
        """End the process and its tree; return when the exit is reported and the tree is gone. The first caller's
        deadlines count. Raises `Survivors`, `Blind`; the next call then tries again, and `ProcessSupervisor.aclose` is
        one.
        """
        if self._stop is None or _failed(self._stop):
            self._stop = self._supervisor.hold(self._run_stop_sequence(deadlines))
        return await asyncio.shield(self._stop)

    async def _attach(self) -> None:
        try:
            await self._equip()
            await asyncio.sleep(EXEC_TIME)
            self._record()
            self._listening = True
        finally:
            self._loop.add_reader(self._child.pidfd, self._on_ended)

    async def _equip(self) -> None:
        try:
            self._child.set_limits(self.command.rlimits)
            await self._pipes.connect()
        except (OSError, ValueError) as error:
            raise explain_limits(self.command, error) from error

    def _record(self) -> None:
        try:
            self.identity = self._child.identify()
            self._tree.include(self.identity)
            self._supervisor.complete(self._number, self.identity)
        except (OSError, ValueError) as error:
            raise explain_record(self.command, error) from error

    async def _abandon(self) -> None:
        self._listening = False
        self.kill()
        await self.stop(StopDeadlines(eof=0, terminate=0))

    async def _run_stop_sequence(self, deadlines: StopDeadlines) -> Exit:
        self._sweep_grace, self._bound = deadlines.sweep_grace, deadlines.kill
        if self.is_alive:
            # Find the tree before the first signal: once parents are dead, descent proves nothing. If `/proc` cannot be
            # read, signal anyway: marker, session and pipes still identify most of the tree afterwards.
            with contextlib.suppress(Blind):
                await self._supervisor.scan(self._tree)
        for step in deadlines.steps():
            if not await self._ends_within(step):
                continue
            break
        if self._reaping is None:
            raise Survivors(self.command.label, [self.pid], deadlines.kill)
        if _failed(self._reaping):
            self._reaping = self._supervisor.hold(self._reap_tree())
        self._report_when_drained()
        await asyncio.shield(self._reaping)
        return self._require_exit()

    async def _ends_within(self, step: StopStep) -> bool:
        if self.is_alive:
            self._step_on(step.ending)
            try:
                async with asyncio.timeout(step.wait):
                    await self._ended.wait()
            except TimeoutError:
                return False
        return True

    def _step_on(self, ending: Ending) -> None:
        self._act = ending
        match ending:
            case Ending.ON_EOF:
                self._pipes.close_stdin()
            case Ending.ON_TERMINATE:
                self._child.signal_group(signal.SIGTERM)
            case _:
                self._child.signal_group(signal.SIGKILL)

    def _on_ended(self) -> None:
        self._loop.remove_reader(self._child.pidfd)
        self._status = self._child.status()
        self._ended_at = self._loop.time()
        self._ended.set()
        self._reaping = self._supervisor.hold(self._reap_tree())
        self._report_when_drained()

    async def _reap_tree(self) -> None:
        try:
            left = await self._supervisor.end(self._tree, grace=self._sweep_grace, bound=self._bound)
            await self._reported.wait()
            if self._held and not left:
                left = await self._supervisor.end(self._tree, grace=self._sweep_grace, bound=self._bound, closely=True)
        except Blind as blind:
            log.error("%s: %s", self.command.label, blind)  # noqa: TRY400 (it may have no waiting caller; a trace adds nothing)
            raise
        if left:
            error = Survivors(self.command.label, [stat.pid for stat in left], self._loop.time() - self._ended_at)
            log.error("%s", error)
            raise error
        self._child.reap()
        self._supervisor.forget(self._number)

    def let_go(self) -> None:
        """Free the pid of a process whose tree could not be ended. Called after the last stop."""
        if not self.is_alive:
            self._child.reap()

    def _on_end_of_pipe(self) -> None:
        if not self.is_alive:
            if self._pipes.drained:
                self._report()
        elif self._pipes.inflow.ended:
            # It cannot answer any more. Nearly always it is about to end by itself: give it the time.
            self._loop.call_later(MUTE, self._stop_if_mute)

    def _stop_if_mute(self) -> None:
        if self.is_alive and self._stop is None:
            self._stop = self._supervisor.hold(self._run_stop_sequence(DEFAULT_DEADLINES))

    def _report_when_drained(self) -> None:
        if self._pipes.drained:
            self._report()
        else:
            # A grandchild may hold stdout open without end.
            self._loop.call_later(LINGER, self._report_late, LINGERS)

    def _report_late(self, left: int) -> None:
        """Report the end, unless we are behind with reading: only a grandchild's hold on the pipe is not waited for."""
        if left and self._pipes.behind:
            self._loop.call_later(LINGER, self._report_late, left - 1)
        else:
            self._report()

    def _report(self) -> None:
        if self.exit is not None:
            return
        status = self._status
        self._held = not self._pipes.drained
        self.exit = Exit(
            self.pid,
            code=status if status is not None and status >= 0 else None,
            signal=-status if status is not None and status < 0 else None,
            ending=self._act,
            after=self._ended_at - self._started_at,
            stderr=tuple(self._tail.tail(TAIL)),
        )
        self._pipes.close()
        self._reported.set()
        if self._listening:
            self._listener.process_exited(self.exit)

    def _require_stdin(self) -> None:
        if self._pipes.outflow.closed or self._stop is not None or not self.is_alive:
            raise StdinClosed(self.command.label, self.pid)

    def _require_exit(self) -> Exit:
        if self.exit is None:
            raise AssertionError("buried before it was reported")
        return self.exit


def _failed(task: "asyncio.Task[Any]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def open_folder(command: Command, probe: BlockingProbe[Descriptor]) -> Folder:
    """Open the command's working directory. Raises `StartError`."""
    folder = Folder(command.cwd, probe, exact=command.exact_cwd)
    try:
        await folder.confirm()
    except OSError as error:
        raise explain_directory(command, error) from error
    return folder
