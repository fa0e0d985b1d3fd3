"""The tool side: the bridge, its channels, our own tools and configured tool servers, what agents may do."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ostler.bridge.channels.http import HttpChannel
from ostler.bridge.channels.http_app import HttpSettings
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.upstreams.remote import ExtraMissing
from ostler.bridge.upstreams.shared import Upstreams
from ostler.gateway.config.check import upstream_settings
from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.settings import MemorySettings, Settings
from ostler.gateway.memory.memories import Memories
from ostler.gateway.sessions.workshop import Workshop
from ostler.gateway.tools import load as load_sources
from ostler.pool import configuration as pool_configuration
from ostler.pool.ports import ToolSet
from ostler.pool.provider import ToolChannel


def bridge_settings(folder: Path, environ: Mapping[str, str], call_deadline: float) -> BridgeSettings:
    """Where the socket is."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    return BridgeSettings(
        data_directory=folder,
        runtime_directory=Path(runtime) if runtime else None,
        call_deadline=call_deadline,
    )


@asynccontextmanager
async def open_tool_channel(wanted: pool_configuration.PoolSettings, port: int) -> AsyncIterator[HttpChannel | None]:
    """The HTTP tool channel, where an agent gets its tools over it."""
    if all(provider.tool_channel is not ToolChannel.HTTP for provider in wanted.providers.values()):
        yield None
        return
    channel = HttpChannel(HttpSettings(enabled=True, port=port))
    await channel.start()
    try:
        yield channel
    finally:
        await channel.stop()


async def equipped(
    wanted: pool_configuration.PoolSettings, workshop: Workshop, memory: MemorySettings
) -> pool_configuration.PoolSettings:
    """Seats that are kept ready have the tools that sessions will ask for, since a seat is opened with its tools: those
    of the OpenAI API, and one more for the next conversation on a chat face where that has others."""
    if not wanted.warm:
        return wanted
    api = await workshop.usual(remembered=memory.openai_api)
    face = await workshop.usual(remembered=True)
    warm = [replace(key, tools=ToolSet(api) if api else None) for key in wanted.warm]
    if face != api:
        warm += [replace(key, tools=ToolSet(face), seats=1) for key in wanted.warm]
    return replace(wanted, warm=tuple(warm))


@asynccontextmanager
async def open_workshop(settings: Settings, memories: Memories) -> AsyncIterator[Workshop]:
    """Our own tools, memory's, and the configured tool servers, which start while the gateway is serving already."""
    sources = load_sources() if settings.tools.own else ()
    servers = upstream_settings(settings)
    if not servers:
        yield Workshop(sources, wanted=settings.tools.own, of_memory=[memories.source])
        return
    try:
        upstreams = Upstreams(servers)
    except ExtraMissing as error:
        raise ConfigError("configuration", str(error)) from error
    for upstream in upstreams.shared:
        upstream.start()
    try:
        yield Workshop(sources, wanted=settings.tools.own, of_memory=[memories.source], upstreams=upstreams)
    finally:
        await upstreams.stop()
