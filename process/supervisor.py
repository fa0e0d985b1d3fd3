"""Ensures that no process outlives the gateway: reaper, ledger, and the tasks that end process trees.

Rules: open one per gateway run, before the first agent; close it last.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from ostler.process.errors import Blind, KeeperClosed, ProcessError, StartError
from ostler.process.ledger import Run, SpawnLedger
from ostler.process.probe import BlockingProbe
from ostler.process.reaper.kill_plan import KillPlan, Orders
from ostler.process.reaper.pipe_inodes import PipeInodes
from ostler.process.reaper.proc import MarkedProcesses, ProcessIdentity, Stat, take_census
from ostler.process.reaper.signals import PAUSE, ProcessTree, send
from ostler.process.reaper_client import ReaperClient
from ostler.process.recovery import recover_stale_runs

log = logging.getLogger(__name__)
T = TypeVar("T")


class Stoppable(Protocol):
    async def stop(self) -> object: ...
    def let_go(self) -> None: ...


class ProcessSupervisor:
    """Owns all agent processes of one gateway run. Made by `open`; to be used only on its loop's thread."""

    def __init__(
        self, run: Run, ledger: SpawnLedger, reaper: ReaperClient, threads: ThreadPoolExecutor, reaped: int
    ) -> None:
        self.run = run
        self.reaped = reaped
        """Processes of earlier runs that this run had to end when it began."""
        self._ledger = ledger
        self._reaper = reaper
        self._threads = threads
        self._spawned = 0
        self._closing = False
        self.missing_programs: BlockingProbe[tuple[type[StartError], str]] = BlockingProbe()
        """Looks for programs that a start did not find."""
        self._living: dict[int, Stoppable] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._next_census: asyncio.Task[MarkedProcesses] | None = None
        self._census_turn = asyncio.Lock()

    @classmethod
    async def open(cls, runtime_dir: Path, instance_id: str, *, python: str = sys.executable) -> "ProcessSupervisor":
        """End what dead gateways left in the runtime directory, then start the reaper. `instance_id` names this
        gateway.
        """
        run = Run.of_this_process(instance_id)
        threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ostler-proc")
        try:
            reaped = await asyncio.get_running_loop().run_in_executor(threads, recover_stale_runs, runtime_dir, run)
            ledger = SpawnLedger.open(runtime_dir, run)
            ledger.make_spare()
            try:
                reaper = ReaperClient(run, python)
                reaper.open()
            except BaseException:
                ledger.close()
                raise
        except BaseException:
            threads.shutdown(wait=False)
            raise
        return cls(run, ledger, reaper, threads, reaped)

    @property
    def folder(self) -> Path:
        """The directory of this run's ledger: one file per process that may be alive."""
        return self._ledger.folder

    def announce(self, label: str, pipes: PipeInodes) -> int:
        """Called before every start. If the gateway dies from here on, the process and its descendants are found by
        marker or pipes, although its pid was never recorded and the process itself may be gone by then.
        """
        if self._closing:
            raise KeeperClosed(f"cannot start {label}: gateway run {self.run.name} is shutting down")
        self._spawned += 1
        self._ledger.announce(self._spawned, label, pipes)
        self._reaper.expect(self._spawned, pipes)
        self.hold(self._make_spare())
        return self._spawned

    def mark(self, number: int) -> str:
        return f"{self.run.mark}{number}"

    def track_pid(self, number: int, pid: int) -> None:
        """Called in the same step as the start. If the gateway dies before it knows the identity, the process's session
        tells the reaper which descendants it left, even those that have closed its pipes.
        """
        self._reaper.track(number, ProcessIdentity(pid, 0))

    def adopt(self, number: int, process: Stoppable) -> None:
        """Register a running process: `aclose` will stop it, or end what is left of its tree."""
        self._living[number] = process

    def complete(self, number: int, identity: ProcessIdentity) -> None:
        """Record the identity. Until then marker and pipes stand for the process in the ledger."""
        self._reaper.track(number, identity)
        self._ledger.complete(number, identity)

    def forget(self, number: int) -> None:
        """The whole tree is gone: remove its records."""
        self._living.pop(number, None)
        self._ledger.forget(number)
        self._reaper.forget(number)

    def hold(self, work: Coroutine[object, object, T]) -> "asyncio.Task[T]":
        """Own a task until it is done; the failure of a task that no caller awaits is at least logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._release)
        return task

    async def scan(self, tree: ProcessTree) -> list[Stat]:
        """Find the tree's members. One scan serves every caller that asked before it began, so twenty stops at once
        cost what one does. Raises `Blind`.
        """
        if self._next_census is None:
            self._next_census = self.hold(self._take_census())
        return tree.find(await asyncio.shield(self._next_census))

    async def scan_closely(self, tree: ProcessTree) -> list[Stat]:
        """Find the tree's members by their pipes too. This costs more and is shared with no other caller. Raises
        `Blind`.
        """
        return await self._read(tree.scan)

    async def end(self, tree: ProcessTree, *, grace: float, bound: float, closely: bool = False) -> list[Stat]:
        """End the whole tree; return the processes that could not be ended within grace + bound. A failed scan is tried
        again; raises `Blind` if scans still fail after that time.
        """
        scan = self.scan_closely if closely else self.scan
        clock = asyncio.get_running_loop().time
        began = clock()
        plan = KillPlan(began, grace=grace, bound=bound)
        while True:
            try:
                found = await scan(tree)
                orders = plan.next_orders(found, clock())
                if orders.over:
                    return [stat for stat in found if not stat.dead]
                _send_signals(orders)
            except Blind:
                if clock() >= began + grace + bound:
                    raise
            await asyncio.sleep(PAUSE)

    async def aclose(self) -> None:
        """Stop every process, wait until every tree has ended, dismiss the reaper."""
        self._closing = True
        for process in list(self._living.values()):
            self.hold(process.stop())
        while self._tasks:
            await asyncio.wait(self._tasks)
        for process in self._living.values():
            process.let_go()
        await self._reaper.aclose()
        self._ledger.close()
        self._threads.shutdown(wait=False)

    async def _make_spare(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._ledger.make_spare)

    async def _take_census(self) -> MarkedProcesses:
        async with self._census_turn:
            self._next_census = None  # a caller that asks from here on must not get this older scan
            return await self._read(self.take_census)

    def take_census(self) -> MarkedProcesses:
        """Scan all processes. Blocking: run it in a thread."""
        return take_census(self.run.owner.start)

    async def _read(self, read: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, read)
        except OSError as error:
            raise Blind(str(error)) from error

    def _release(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None or isinstance(error, ProcessError):
            return  # errors of this package were raised to a waiting caller, and logged where there may be none
        log.error("a task of the process keeper failed: %s", error, exc_info=error)


def _send_signals(orders: Orders) -> None:
    try:
        for stat, number in orders.signals:
            send(stat, number)
    except OSError as error:
        raise Blind(str(error)) from error
