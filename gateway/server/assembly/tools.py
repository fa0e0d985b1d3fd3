"""The tool side: the bridge, its channels, our own tools and the configured tool servers."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from ostler.bridge.channels.http import HttpChannel
from ostler.bridge.channels.http_app import HttpSettings
from ostler.bridge.session_facts import SessionFacts
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.upstreams.remote import ExtraMissing
from ostler.bridge.upstreams.shared import Upstreams
from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.settings import MemorySettings, Settings
from ostler.gateway.memory.memories import Memories
from ostler.gateway.model.session_context import SessionContext
from ostler.gateway.ops.settings_check import upstream_settings
from ostler.gateway.turns.tools import load as load_sources
from ostler.gateway.turns.toolset import NOBODY, ToolsetFactory, ToolSource
from ostler.metrics.loops import Loops
from ostler.pool.launch import configuration as pool_configuration
from ostler.pool.ports import ToolSet
from ostler.pool.provider import ToolChannel

log = logging.getLogger(__name__)


def bridge_settings(folder: Path, environ: Mapping[str, str], call_deadline: float) -> BridgeSettings:
    """Where the bridge puts its socket, and how long calls may take."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    return BridgeSettings(
        data_directory=folder,
        runtime_directory=Path(runtime) if runtime else None,
        call_deadline=call_deadline,
    )


@asynccontextmanager
async def open_tool_channel(
    wanted: pool_configuration.PoolSettings, port: int, loops: Loops | None = None
) -> AsyncIterator[HttpChannel | None]:
    """The HTTP tool channel, if any agent gets its tools over HTTP; else None."""
    if all(provider.tool_channel is not ToolChannel.HTTP for provider in wanted.providers.values()):
        yield None
        return
    channel = HttpChannel(HttpSettings(enabled=True, port=port), loops=loops)
    await channel.start()
    try:
        yield channel
    finally:
        await channel.stop()


async def usual_tools(toolsets: ToolsetFactory, memory: MemorySettings) -> tuple[ToolSet | None, ...]:
    """The tool sets that sessions will ask for, with which warm seats must be opened: that of the OpenAI API, and that
    of chat surfaces if it differs."""
    api = await toolsets.usual(remembered=memory.openai_api)
    face = await toolsets.usual(remembered=True)
    return tuple(ToolSet(tools) if tools else None for tools in ((api,) if face == api else (api, face)))


def equipped(
    wanted: pool_configuration.PoolSettings, tool_sets: Sequence[ToolSet | None]
) -> pool_configuration.PoolSettings:
    """The pool's settings with these tools for the warm keys: the configured seats for the first tool set, and one
    seat, for the next conversation, for each other."""
    usual, *others = tool_sets
    warm = [replace(key, tools=usual) for key in wanted.warm]
    warm += [replace(key, tools=tools, seats=1) for tools in others for key in wanted.warm]
    return replace(wanted, warm=tuple(warm))


def warn_of_strays(sources: Sequence[ToolSource], wanted: Sequence[str]) -> None:
    """Warn of patterns that match no tool. A source may have a tool for some sessions only, so this is no error."""
    context = SessionContext(SessionFacts(session_id=NOBODY), "")
    names = sorted({tool.name for source in sources for tool in source(context)})
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            log.warning("tools.own: no tool of ours is called %r; there are: %s", pattern, ", ".join(names))


@asynccontextmanager
async def open_toolsets(
    settings: Settings, memories: Memories, loops: Loops | None = None
) -> AsyncIterator[ToolsetFactory]:
    """The factory of session tools: our own, those of memory, and those of the configured servers. The servers start in
    the background, while the gateway already serves."""
    sources = load_sources() if settings.tools.own else ()
    warn_of_strays(sources, settings.tools.own)
    servers = upstream_settings(settings)
    if not servers:
        yield ToolsetFactory(sources, wanted=settings.tools.own, of_memory=[memories.source])
        return
    try:
        upstreams = Upstreams(servers, loops=loops)
    except ExtraMissing as error:
        raise ConfigError("configuration", str(error)) from error
    for upstream in upstreams.shared:
        upstream.start()
    try:
        yield ToolsetFactory(sources, wanted=settings.tools.own, of_memory=[memories.source], upstreams=upstreams)
    finally:
        await upstreams.stop()
