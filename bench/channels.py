"""What a session's tools cost by each channel: the time until they are attached, and memory per session.

The demo agent always, and the real agents that are on PATH and take tools over HTTP. The memory is that of the agent's
whole process tree, so a relay counts where it runs. What the gateway itself holds for a session is not in it. Channels
take turns, each round on a fresh process; the first session of a process is not counted, because it pays for what is
loaded once.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Report, ratio
from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.channels.http import HttpChannel
from ostler.bridge.channels.http_app import HttpSettings
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.pool.errors import AgentStartFailed
from ostler.pool.gate import OpenGates
from ostler.pool.keys import TransportKey
from ostler.pool.launch import launch
from ostler.pool.order import SeatOrder
from ostler.pool.permission import allow
from ostler.pool.process import Keeper
from ostler.pool.provider import Provider, Sharing, ToolChannel
from ostler.pool.providers import load
from ostler.pool.settings import ProviderSettings
from ostler.pool.transport import Transport

TOOL = {"name": "peek", "description": "Looks.", "inputSchema": {"type": "object", "properties": {}}}
SESSIONS = 8
FLAGS = {"demo": ("--mcp-http", "--mcp-acp")}
"""What an agent has to be told before it offers its channels."""


@dataclass(frozen=True)
class Yard:
    """Where agents are started."""

    bridge: Bridge
    keeper: Keeper
    home: Path

    async def start(self, provider: Provider, channel: ToolChannel) -> Transport:
        settings = ProviderSettings(home=str(self.home), args=FLAGS.get(provider.name, ()), tool_channel=channel)
        environ = {**os.environ, **dict.fromkeys(provider.credentials, "none")}
        plan = launch(provider, settings, TransportKey(provider.name, "default", str(self.home)), environ)
        return await Transport.start(plan, keeper=self.keeper, gates=OpenGates())

    async def open(self, transport: Transport, number: int) -> float:
        """Milliseconds until a session has its tools."""
        apart = transport.provider.sharing is Sharing.PER_CWD
        cwd = self.home / (f"work-{number}" if apart else "work")
        cwd.mkdir(exist_ok=True)
        binding = self.bridge.open([TOOL])
        self.bridge.publish(binding, [TOOL], peek)
        began = time.perf_counter()
        await transport.open(SeatOrder(str(cwd), allow, ticket=binding))
        return (time.perf_counter() - began) * 1000


async def peek(_call: ToolCall) -> CallResult:
    return CallResult.text("nothing")


@asynccontextmanager
async def yard_in(folder: Path) -> AsyncIterator[Yard]:
    """A bridge with every channel, and a HOME."""
    door = HttpChannel(HttpSettings(enabled=True))
    bridge = Bridge(BridgeSettings(data_directory=folder), http=door)
    await bridge.start()
    await door.start()
    keeper = await Keeper.open(folder / "run", "bench")
    home = folder / "home"
    home.mkdir()
    try:
        yield Yard(bridge, keeper, home)
    finally:
        await keeper.aclose()
        await bridge.stop()
        await door.stop()


async def sample(yard: Yard, provider: Provider, channel: ToolChannel) -> tuple[float, float]:
    """Milliseconds of an open, MiB of a session."""
    transport = await yard.start(provider, channel)
    try:
        await yard.open(transport, 0)
        before = await transport.memory()
        times = sorted([await yard.open(transport, number) for number in range(1, SESSIONS + 1)])
        grown = await transport.memory() - before
    finally:
        await transport.close(hard=True)
    return times[len(times) // 2], grown / SESSIONS / 2**20


async def measure(report: Report, yard: Yard, provider: Provider, rounds: int) -> None:
    """One agent's rows."""
    channels = sorted(provider.tool_channels, key=list(ToolChannel).index)
    found: dict[ToolChannel, list[tuple[float, float]]] = {channel: [] for channel in channels}
    for turn in range(rounds):
        for channel in channels if turn % 2 else reversed(channels):
            found[channel].append(await sample(yard, provider, channel))
    for channel, samples in found.items():
        report.row(f"{provider.name}, {channel.value}: open", "ms", [ms for ms, _ in samples])
        report.row(f"{provider.name}, {channel.value}: a session", "MiB", [size for _, size in samples])
    relay = [ms for ms, _ in found[ToolChannel.RELAY]]
    for channel in channels[1:]:
        times = ratio([ms for ms, _ in found[channel]], relay)
        report.notes.append(f"{provider.name}: open over {channel.value} / over the relay: {times:.2f}")


async def fill(report: Report, rounds: int) -> None:
    """Every agent that is here and has a choice."""
    for provider in load().values():
        if ToolChannel.HTTP not in provider.tool_channels or provider.find is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                async with yard_in(Path(folder)) as yard:
                    await measure(report, yard, provider, rounds)
            except AgentStartFailed as missing:
                report.notes.append(str(missing))


def run(quick: bool) -> Report:
    """The figures of this file."""
    report = Report("tools by relay, over HTTP and over the agent's own pipe")
    asyncio.run(fill(report, 2 if quick else 5))
    return report
