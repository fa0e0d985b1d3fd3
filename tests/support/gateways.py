"""A stand-in for the gateway that tests may kill: a keeper, several nasty agents, and nothing else.

Run as `python -m tests.support.gateways RUNTIME_DIR COUNT`; prints a JSON line once it keeps `COUNT` agents,
or, with `COUNT` 0, starts agents without end and says nothing. With `torn` for COUNT it dies by SIGKILL in the midst of
its first start, when nobody was told the pid of the agent and that agent has come to its own end already; with `alone`
its reaper dies first.
"""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ostler.process import AgentProcess, ProcessIdentity, ProcessSupervisor
from tests.support.processes import ESCAPES, LEAVES_A_STRANGER, Recorder, identify, python

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class StandIn:
    process: "subprocess.Popen[bytes]"
    runtime_dir: Path
    mark: str
    reaper: ProcessIdentity
    agents: list[ProcessIdentity]
    """The agents and whatever each of them has left in the world."""

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def stand_in(runtime_dir: Path, count: int = 3) -> Iterator[StandIn]:
    process = launch(runtime_dir, count)
    assert process.stdout is not None
    try:
        facts = json.loads(process.stdout.readline())
        agents = [ProcessIdentity(*pair) for pair in facts["agents"]]
        yield StandIn(process, runtime_dir, facts["mark"], ProcessIdentity(*facts["reaper"]), agents)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def launch(runtime_dir: Path, count: int | str) -> "subprocess.Popen[bytes]":
    line = [sys.executable, "-m", "tests.support.gateways", str(runtime_dir), str(count)]
    return subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE)


async def keep(runtime_dir: Path, count: int) -> None:
    """The usual life."""
    supervisor = await ProcessSupervisor.open(runtime_dir, "standin")
    if count == 0:
        await start_without_end(runtime_dir, supervisor)
    codes = itertools.cycle(ESCAPES.values())
    agents: list[ProcessIdentity] = []
    for _ in range(count):
        listener = Recorder()
        process = await AgentProcess.start(python(next(codes), runtime_dir), listener, supervisor=supervisor)
        agents += [process.identity, identify(int(await listener.line()))]
    assert supervisor._reaper.pid is not None
    reaper = identify(supervisor._reaper.pid)
    print(json.dumps({"mark": supervisor.run.mark, "reaper": reaper, "agents": agents}), flush=True)
    await asyncio.Event().wait()


class DyingKeeper(ProcessSupervisor):
    """Its gateway is killed between the start of an agent and the telling of its pid, as late as can be."""

    alone = False

    def track_pid(self, number: int, pid: int) -> None:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if self.alone and self._reaper.pid is not None:
            os.kill(self._reaper.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class LonelyKeeper(DyingKeeper):
    alone = True


async def die_within_a_start(supervisor: ProcessSupervisor, runtime_dir: Path) -> None:
    await AgentProcess.start(python(LEAVES_A_STRANGER, runtime_dir), Recorder(), supervisor=supervisor)


async def start_without_end(runtime_dir: Path, supervisor: ProcessSupervisor) -> None:
    for code in itertools.cycle((*ESCAPES.values(), LEAVES_A_STRANGER)):
        await AgentProcess.start(python(code, runtime_dir), Recorder(), supervisor=supervisor)


async def main(runtime_dir: Path, word: str) -> None:
    """By what was asked for on the command line."""
    if word in KEEPERS:
        await die_within_a_start(await KEEPERS[word].open(runtime_dir, "standin"), runtime_dir)
    else:
        await keep(runtime_dir, int(word))


KEEPERS = {"torn": DyingKeeper, "alone": LonelyKeeper}

if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
