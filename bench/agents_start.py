"""Cold start of the real agents that are on PATH: as a person starts them, as we do, and with Node's compile cache.

"As found" is the command on PATH with nothing set; "ours" is what `launch` makes of it: no relaunch, the script or the
native binary itself, no update checks. The compile cache needs Node 22 or later. And for gemini: eight sessions opened
one after another, and eight asked for at once through our gate. An agent that is not installed is left out and named.
"""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.measure import Report
from ostler.pool.errors import AgentStartFailed
from ostler.pool.gate import OpenGates
from ostler.pool.keys import TransportKey
from ostler.pool.launch import Launch, launch
from ostler.pool.order import SeatOrder
from ostler.pool.permission import allow
from ostler.pool.process import Keeper
from ostler.pool.provider import Provider
from ostler.pool.providers import load
from ostler.pool.settings import ProviderSettings
from ostler.pool.transport import Transport

COMMANDS = {
    "gemini-acp": ("gemini", "--acp"),
    "codex-app-server": ("codex", "app-server"),
    "codex-acp": ("codex-acp",),
    "claude-acp": ("claude-agent-acp",),
    "qwen-acp": ("qwen", "--acp"),
    "opencode-acp": ("opencode", "acp"),
}
"""How a person would start them."""
PARALLEL = 8


def plans(provider: Provider, home: Path) -> Mapping[str, Launch]:
    """The ways to start one agent."""
    environ = {**os.environ, "HOME": str(home), "GEMINI_API_KEY": "none", "OPENAI_API_KEY": "none"}
    key = TransportKey(provider.name, "default", str(home))
    program, *arguments = COMMANDS[provider.name]
    found = shutil.which(program) or program
    bare = Provider(
        name=provider.name,
        title=provider.title,
        codec=provider.codec,
        find=lambda _finder: (found, *arguments),
        install="",
        credentials=provider.credentials,
        approvals=provider.approvals,
    )
    cached = ProviderSettings(home=str(home), cache=str(home / "cache"))
    return {
        "as found": launch(bare, ProviderSettings(home=str(home)), key, environ),
        "ours": launch(provider, ProviderSettings(home=str(home)), key, environ),
        "ours, compile cache": launch(provider, cached, key, environ),
    }


async def start_time(plan: Launch, keeper: Keeper) -> float:
    """Milliseconds from spawn to the answered handshake."""
    began = time.perf_counter()
    transport = await Transport.start(plan, keeper=keeper, gates=OpenGates())
    took = time.perf_counter() - began
    # Politely: Node writes its compile cache when it leaves.
    await transport.close()
    return took * 1000


async def measure(report: Report, provider: Provider, keeper: Keeper, home: Path, rounds: int) -> None:
    """One agent's rows."""
    ways = plans(provider, home)
    samples: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(-1, rounds):  # the first round fills HOME and caches and is not counted
        for way, plan in ways.items():
            took = await start_time(plan, keeper)
            if turn >= 0:
                samples[way].append(took)
    for way, found in samples.items():
        report.row(f"{provider.name}, {way}", "ms", found)


async def opens(plan: Launch, keeper: Keeper) -> tuple[float, float]:
    """Milliseconds for opens one after another, and for as many at once."""
    transport = await Transport.start(plan, keeper=keeper, gates=OpenGates())
    order = SeatOrder(plan.key.cwd, allow)
    await transport.open(order)
    began = time.perf_counter()
    for _ in range(PARALLEL):
        await transport.open(order)
    between = time.perf_counter()
    await asyncio.gather(*(transport.open(order) for _ in range(PARALLEL)))
    ended = time.perf_counter()
    await transport.close(hard=True)
    return (between - began) * 1000, (ended - between) * 1000


async def fill(report: Report, rounds: int) -> None:
    """Every agent that is here."""
    providers = load()
    with tempfile.TemporaryDirectory() as folder:
        keeper = await Keeper.open(Path(folder) / "run", "bench")
        try:
            for name in COMMANDS:
                home = Path(folder) / name
                home.mkdir()
                try:
                    await measure(report, providers[name], keeper, home, rounds)
                except AgentStartFailed as missing:
                    report.notes.append(str(missing))
                    continue
                if name == "gemini-acp":
                    await compare_opens(report, plans(providers[name], home)["ours"], keeper, rounds)
        finally:
            await keeper.aclose()


async def compare_opens(report: Report, plan: Launch, keeper: Keeper, rounds: int) -> None:
    """Eight at once take what eight in a row take."""
    pairs = [await opens(plan, keeper) for _ in range(rounds)]
    serial = report.row(f"gemini-acp, {PARALLEL} opens in a row", "ms", [each for each, _ in pairs])
    at_once = report.row(f"gemini-acp, {PARALLEL} opens at once", "ms", [each for _, each in pairs])
    report.claim("opens at once / in a row", at_once.median / serial.median, at_most=1.5)


def run(quick: bool) -> Report:
    """The figures of this file."""
    report = Report("cold start of real agents, and opening many sessions on one HOME")
    asyncio.run(fill(report, 2 if quick else 5))
    return report
