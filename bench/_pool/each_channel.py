"""`python -m bench._pool.each_channel PLAN`: what a session's tools cost by each channel, agent by agent.

Rules: channels take turns, each round on a fresh process; the first session of a process is not counted, because it
pays for what is loaded once.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from bench._pool.ground import Ground
from bench._pool.stage import stage
from bench.measure import Report, ratio
from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.channels.http import HttpChannel
from ostler.bridge.channels.http_app import HttpSettings
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.pool.agent.per_home import PerHome
from ostler.pool.agent.transport import Transport
from ostler.pool.errors import PoolError
from ostler.pool.launch.builder import launch
from ostler.pool.order import SeatOrder
from ostler.pool.permission import allow
from ostler.pool.provider import Provider, Sharing, ToolChannel
from ostler.pool.providers import load
from ostler.process import ProcessSupervisor

TOOL = {"name": "peek", "description": "Looks.", "inputSchema": {"type": "object", "properties": {}}}
SESSIONS = 8
ROUNDS, PATIENCE = 3, 15.0
"""An agent that has used up its seconds gets no more rounds, but two it gets."""
FLAGS = {"demo": ("--mcp-http", "--mcp-acp")}
"""What an agent has to be told before it offers its channels."""


@dataclass(frozen=True)
class Yard:
    """Where one agent is started."""

    ground: Ground
    bridge: Bridge
    supervisor: ProcessSupervisor

    async def start(self, provider: Provider, channel: ToolChannel) -> Transport:
        settings = self.ground.settings()
        args = (*settings.args, *FLAGS.get(provider.name, ()))
        plan = launch(provider, replace(settings, args=args, tool_channel=channel), self.ground.key, os.environ)
        return await Transport.start(plan, supervisor=self.supervisor, per_home=PerHome())

    async def open(self, transport: Transport, number: int) -> float:
        """Milliseconds until a session has its tools."""
        apart = transport.provider.sharing is Sharing.PER_CWD
        cwd = self.ground.folder / (f"work-{number}" if apart else "work")
        cwd.mkdir(exist_ok=True)
        binding = self.bridge.open([TOOL])
        self.bridge.publish(binding, [TOOL], peek)
        began = time.perf_counter()
        await transport.open(SeatOrder(str(cwd), allow, ticket=binding))
        return (time.perf_counter() - began) * 1000


async def peek(_call: ToolCall) -> CallResult:
    return CallResult.text("nothing")


@asynccontextmanager
async def yard_of(ground: Ground) -> AsyncIterator[Yard]:
    """A bridge with every channel."""
    door = HttpChannel(HttpSettings(enabled=True))
    bridge = Bridge(BridgeSettings(data_directory=ground.folder), http=door)
    await bridge.start()
    await door.start()
    supervisor = await ProcessSupervisor.open(ground.folder / "run", "bench")
    try:
        yield Yard(ground, bridge, supervisor)
    finally:
        await supervisor.aclose()
        await bridge.stop()
        await door.stop()


async def sample(yard: Yard, provider: Provider, channel: ToolChannel) -> tuple[float, float]:
    """Milliseconds of an open, MiB of a session."""
    transport = await yard.start(provider, channel)
    try:
        await yard.open(transport, 0)
        before = (await transport.memory()).pss
        times = sorted([await yard.open(transport, number) for number in range(1, SESSIONS + 1)])
        grown = (await transport.memory()).pss - before
    finally:
        await transport.close(hard=True)
    return times[len(times) // 2], grown / SESSIONS / 2**20


async def measure(report: Report, yard: Yard, provider: Provider) -> None:
    """One agent's rows."""
    channels = sorted(provider.tool_channels, key=list(ToolChannel).index)
    found: dict[ToolChannel, list[tuple[float, float]]] = {channel: [] for channel in channels}
    began = time.monotonic()
    for turn in range(2 if yard.ground.quick else ROUNDS):
        if turn > 1 and time.monotonic() - began > PATIENCE:
            break
        for channel in channels if turn % 2 else reversed(channels):
            found[channel].append(await sample(yard, provider, channel))
    for channel, samples in found.items():
        report.row(f"{provider.name}, {channel.value}: open", "ms", [ms for ms, _ in samples])
        report.row(f"{provider.name}, {channel.value}: a session", "MiB", [size for _, size in samples])
    relay = [ms for ms, _ in found[ToolChannel.RELAY]]
    for channel in channels[1:]:
        times = ratio([ms for ms, _ in found[channel]], relay)
        report.notes.append(f"{provider.name}: open over {channel.value} / over the relay: {times:.2f}")


async def every_one(grounds: list[Ground], report: Report) -> None:
    """One after the other; one that fails is named, and the run fails at its end."""
    measured = 0
    for ground in grounds:
        began = time.monotonic()
        try:
            async with yard_of(ground) as yard:
                await measure(report, yard, load()[ground.provider])
            measured += 1
        except PoolError as failed:
            report.notes.append(f"{ground.provider} is not measured: {failed}")
        print(f"  {ground.provider}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    report.claim("agents of those that are installed and have a choice", measured, at_least=len(grounds))


def those_with_a_choice(installs: Iterable[str]) -> list[str]:
    """The demo agent, and of the installed ones whoever takes its tools by more ways than one."""
    return [name for name in ("demo", *installs) if ToolChannel.HTTP in load()[name].tool_channels]


def main() -> None:
    with stage("tools by relay, over HTTP and over the agent's own pipe") as here:
        names = those_with_a_choice(here.plan["installs"])
        asyncio.run(every_one([here.ground_of(name) for name in names], here.report))


if __name__ == "__main__":
    main()
