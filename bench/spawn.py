"""How long a start stops the loop, with a parent of 20 MB and of 2 GB: ours against both loops' own.

`python -m bench.spawn`. Each figure is the longest gap between two turns of the loop while one `cat` is started;
30 starts each, all in this run. The promise is under 1 ms beside 2 GB.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from ostler.pool.process import AgentProcess, Command, Exit, Keeper, build_environment

STARTS = 30
BALLAST_MB = (0, 2048)
Start = Callable[[], Awaitable[Callable[[], Awaitable[object]]]]


class Deaf:
    def stdout_received(self, data: bytes) -> None: ...
    def writable(self, ok: bool) -> None: ...  # noqa: FBT001
    def process_exited(self, exit: Exit) -> None: ...  # noqa: A002


async def longest_gap(start: Start) -> float:
    gap, last, watching = 0.0, time.perf_counter(), True

    def turn() -> None:
        nonlocal gap, last
        now = time.perf_counter()
        gap, last = max(gap, now - last), now
        if watching:
            loop.call_soon(turn)

    loop = asyncio.get_running_loop()
    loop.call_soon(turn)
    await asyncio.sleep(0)
    gap = 0.0
    end = await start()
    watching = False
    turn()
    await end()
    return gap * 1000


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

        figures = {"ours": [await longest_gap(ours) for _ in range(STARTS)]}
        figures["create_subprocess_exec"] = [await longest_gap(theirs) for _ in range(STARTS)]
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
