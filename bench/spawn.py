"""How long a start stops the loop, with a parent of 20 MB and of 2 GB: ours against both loops' own, and what a start
takes that does nothing else.

Rules: each figure is the longest uninterrupted step on the loop while one `cat` starts. Ways take turns. The promise is
under 1 ms beside 2 GB, held to by the fastest tenth: on a shared machine the rest also measures its other programs.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

import uvloop

from bench.measure import Report
from ostler.process import AgentProcess, Command, Exit, ProcessSupervisor, build_environment

STARTS = 30
BALLAST_MB = (0, 2048)
Start = Callable[[], Coroutine[Any, Any, Callable[[], Awaitable[object]]]]


class Deaf:
    def stdout_received(self, data: bytes) -> None: ...
    def writable(self, ok: bool) -> None: ...
    def process_exited(self, exit: Exit) -> None: ...  # noqa: A002 - the listener's word


class Timed(Coroutine[Any, Any, Any]):
    """A coroutine whose every step is timed: a step is what nobody else on the loop can interrupt.

    Gaps between turns of a busy loop would be simpler, but beside other programs they measure the scheduler.
    """

    def __init__(self, inner: Coroutine[Any, Any, Any], steps: list[float]) -> None:
        self._inner = inner
        self._steps = steps

    def send(self, value: Any) -> Any:
        began = time.perf_counter()
        try:
            return self._inner.send(value)
        finally:
            self._steps.append(time.perf_counter() - began)

    def throw(self, *raised: Any) -> Any:
        return self._inner.throw(*raised)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError("driven by a task")


async def longest_step(start: Start) -> float:
    loop = asyncio.get_running_loop()
    steps: list[float] = []
    await asyncio.sleep(0.05)  # the end of the one before is no part of this start
    loop.set_task_factory(lambda loop, coro, **named: asyncio.Task(Timed(coro, steps), loop=loop, **named))
    end = await loop.create_task(start())
    loop.set_task_factory(None)
    await end()
    return max(steps) * 1000


def floor() -> float:
    """Milliseconds for the system alone: a child of `posix_spawn`, which shares our memory until its exec."""
    began = time.perf_counter()
    pid = os.posix_spawnp("cat", ["cat"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, 0, 0)])
    took = time.perf_counter() - began
    os.waitpid(pid, 0)
    return took * 1000


async def measure(starts: int) -> dict[str, list[float]]:
    """Milliseconds of each way."""
    with tempfile.TemporaryDirectory() as folder:
        supervisor = await ProcessSupervisor.open(Path(folder) / "run", "bench")
        command = Command(("cat",), Path("/"), build_environment(os.environ))

        async def ours() -> Callable[[], Awaitable[object]]:
            return (await AgentProcess.start(command, Deaf(), supervisor=supervisor)).stop

        async def theirs() -> Callable[[], Awaitable[object]]:
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(
                "cat", stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, env=dict(command.env)
            )
            return lambda: process.communicate(b"")

        found: dict[str, list[float]] = {"ours": [], "create_subprocess_exec": [], "posix_spawn alone": []}
        for _ in range(starts):
            found["ours"].append(await longest_step(ours))
            found["create_subprocess_exec"].append(await longest_step(theirs))
            found["posix_spawn alone"].append(floor())
        await supervisor.aclose()
    return found


def quiet(samples: Sequence[float]) -> float:
    """The fastest tenth."""
    return quantiles(samples, n=10)[0]


def run(quick: bool) -> Report:
    """Small and large, on both loops."""
    report = Report("how long the start of an agent stops the loop")
    for ballast_mb in BALLAST_MB:
        ballast = bytearray(os.urandom(4096) * 256 * ballast_mb)
        for name, factory in (("asyncio", asyncio.new_event_loop), ("uvloop", uvloop.new_event_loop)):
            with asyncio.Runner(loop_factory=factory) as runner:
                found = runner.run(measure(8 if quick else STARTS))
            place = f"{name}, beside {len(ballast) >> 20} MB"
            for who, samples in found.items():
                report.row(f"{place}: {who}", "ms", samples)
            if ballast:
                report.claim(f"{place}: loop stopped, ms", quiet(found["ours"]), at_most=1.0)
                times = quiet(found["create_subprocess_exec"]) / quiet(found["ours"])
                report.notes.append(f"{place}: {times:.1f} x as long by create_subprocess_exec")
        del ballast
    return report
