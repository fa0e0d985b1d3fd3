"""How long a start stops the loop, with a parent of 20 MB and of 2 GB: ours against both loops' own.

`python -m bench.spawn`. Each figure is the longest uninterrupted step on the loop while one `cat` starts;
30 starts each, all in this run. The promise is under 1 ms beside 2 GB.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import uvloop

from ostler.pool.process import AgentProcess, Command, Exit, Keeper, build_environment

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


async def measure() -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        keeper = await Keeper.open(Path(folder) / "run", "bench")
        command = Command(("cat",), Path("/"), build_environment(os.environ))

        async def ours() -> Callable[[], Awaitable[object]]:
            return (await AgentProcess.start(command, Deaf(), keeper=keeper)).stop

        async def theirs() -> Callable[[], Awaitable[object]]:
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(
                "cat", stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, env=dict(command.env)
            )
            return lambda: process.communicate(b"")

        figures = {"ours": [await longest_step(ours) for _ in range(STARTS)]}
        figures["create_subprocess_exec"] = [await longest_step(theirs) for _ in range(STARTS)]
        await keeper.aclose()
    return figures


def quiet(gaps: list[float]) -> float:
    """The fastest tenth: on a shared machine the rest also measures its other programs."""
    return statistics.quantiles(gaps, n=10)[0]


def main() -> None:
    for ballast_mb in BALLAST_MB:
        ballast = bytearray(os.urandom(4096) * 256 * ballast_mb)
        for name, factory in (("asyncio", asyncio.new_event_loop), ("uvloop", uvloop.new_event_loop)):
            with asyncio.Runner(loop_factory=factory) as runner:
                figures = runner.run(measure())
            base = quiet(figures["ours"])
            for who, gaps in figures.items():
                place = f"parent +{len(ballast) >> 20:4d} MB  {name:8s}{who:24s}"
                spread = f"p10 {quiet(gaps):7.2f} ms  p50 {statistics.median(gaps):7.2f} ms"
                print(f"{place}{spread}  p10 is {quiet(gaps) / base:6.1f} x ours")
        del ballast


if __name__ == "__main__":
    sys.exit(main())
