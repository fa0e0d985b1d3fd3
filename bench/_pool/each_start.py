"""`python -m bench._pool.each_start PLAN`: the cold start of each agent, and opening many sessions on one HOME.

Rules:
- "As found" is the command that a person types, with nothing set; "ours" is what `launch` makes of it: no relaunch, the
  script or the native binary itself, no update checks. "Compile cache" is what a gateway adds to that where there is a
  Node of 22.1 or later; with an older one it is left out and said, for then it would be "ours" once more.
- Ways take turns. The first round fills HOME and caches and is nobody's.
- Gemini writes a registry on its HOME whenever it opens a session, and many opens at once take each other's turn: eight
  in a row against eight that are asked for at once, through our gate.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace

from bench._pool.ground import GEMINI, Ground
from bench._pool.stage import stage
from bench.measure import Report, ratio
from ostler.pool.agent.per_home import PerHome
from ostler.pool.agent.transport import Transport
from ostler.pool.errors import PoolError
from ostler.pool.launch.builder import Launch, launch
from ostler.pool.order import SeatOrder
from ostler.pool.permission import allow
from ostler.pool.provider import Provider
from ostler.pool.providers import load
from ostler.process import ProcessSupervisor

COMMANDS = {
    "gemini-acp": ("gemini", "--acp"),
    "codex-app-server": ("codex", "app-server"),
    "codex-acp": ("codex-acp",),
    "claude-acp": ("claude-agent-acp",),
    "qwen-acp": ("qwen", "--acp"),
    "opencode-acp": ("opencode", "acp"),
}
"""How a person would start them."""
COMPILES = (22, 1)
"""The first Node with a compile cache that the environment can switch on."""
PARALLEL = 8
OPENING_ROUNDS = 8
ROUNDS, PATIENCE = 3, 12.0
"""An agent that has used up its seconds gets no more rounds, but two it gets."""


def plans(ground: Ground) -> Mapping[str, Launch]:
    """The ways to start one agent."""
    provider, settings = load()[ground.provider], ground.settings()
    program, *arguments = COMMANDS[ground.provider]
    found = shutil.which(program, path=settings.env["PATH"]) or program
    bare = Provider(
        name=provider.name,
        title=provider.title,
        codec=provider.codec,
        find=lambda _finder: (found, *arguments),
        install="",
        credentials=provider.credentials,
        approvals=provider.approvals,
    )
    ways = {"as found": (bare, settings), "ours": (provider, settings)}
    if node_version(settings.env["PATH"]) >= COMPILES:
        ways["ours, compile cache"] = provider, replace(settings, cache=str(ground.folder / "cache"))
    return {way: launch(who, how, ground.key, settings.env) for way, (who, how) in ways.items()}


def node_version(path: str) -> tuple[int, ...]:
    """Of the Node that agents find there; nothing where there is none."""
    found = shutil.which("node", path=path)
    if found is None:
        return ()
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in told.strip().removeprefix("v").split(".")[:2])


async def start_time(plan: Launch, supervisor: ProcessSupervisor) -> float:
    """Milliseconds from spawn to the answered handshake."""
    began = time.perf_counter()
    transport = await Transport.start(plan, supervisor=supervisor, per_home=PerHome())
    took = time.perf_counter() - began
    # Politely: Node writes its compile cache when it leaves.
    await transport.close()
    return took * 1000


async def starts(report: Report, ground: Ground, supervisor: ProcessSupervisor) -> None:
    """One agent's rows."""
    ways = plans(ground)
    samples: dict[str, list[float]] = {way: [] for way in ways}
    began = time.monotonic()
    for turn in range(-1, 2 if ground.quick else ROUNDS):
        if turn > 1 and time.monotonic() - began > PATIENCE:
            break
        for way, plan in ways.items():
            took = await start_time(plan, supervisor)
            if turn >= 0:
                samples[way].append(took)
    for way, found in samples.items():
        report.row(f"{ground.provider}, {way}", "ms", found)


async def in_a_row(transport: Transport, order: SeatOrder) -> None:
    for _ in range(PARALLEL):
        await transport.open(order)


async def at_once(transport: Transport, order: SeatOrder) -> None:
    await asyncio.gather(*(transport.open(order) for _ in range(PARALLEL)))


async def compare_opens(report: Report, ground: Ground, supervisor: ProcessSupervisor) -> None:
    """Eight at once take what eight in a row take; every other process opens them the other way round first."""
    found: dict[str, list[float]] = {"in a row": [], "at once": []}
    ways = {"in a row": in_a_row, "at once": at_once}
    plan = plans(ground)["ours"]
    order = SeatOrder(plan.key.cwd, allow)
    for turn in range(2 if ground.quick else OPENING_ROUNDS):
        transport = await Transport.start(plan, supervisor=supervisor, per_home=PerHome())
        await transport.open(order)
        for way in ways if turn % 2 else reversed(ways):
            began = time.perf_counter()
            await ways[way](transport, order)
            found[way].append((time.perf_counter() - began) * 1000)
        await transport.close(hard=True)
    for way, samples in found.items():
        report.row(f"{ground.provider}, {PARALLEL} opens {way}", "ms", samples)
    times = ratio(found["at once"], found["in a row"])
    report.claim(f"{ground.provider}: {PARALLEL} opens at once / in a row", times, at_most=1.5)


async def every_one(grounds: list[Ground], report: Report) -> None:
    """One after the other; one that fails is named, and the run fails at its end."""
    measured = 0
    for ground in grounds:
        began = time.monotonic()
        supervisor = await ProcessSupervisor.open(ground.folder / "run", "bench")
        try:
            await starts(report, ground, supervisor)
            if ground.provider == GEMINI:
                await compare_opens(report, ground, supervisor)
            measured += 1
        except PoolError as failed:
            report.notes.append(f"{ground.provider} is not measured: {failed}")
        finally:
            await supervisor.aclose()
        print(f"  {ground.provider}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    report.claim("agents of those that are installed", measured, at_least=len(grounds))


def main() -> None:
    with stage("cold start of real agents, and opening many sessions on one HOME") as here:
        if node_version(os.environ["PATH"]) < COMPILES:
            here.report.notes.append("this Node has no compile cache that could be switched on: 22.1 is the first")
        grounds = [here.ground_of(name) for name in here.plan["installs"] if name in COMMANDS]
        asyncio.run(every_one(grounds, here.report))


if __name__ == "__main__":
    main()
