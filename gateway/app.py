"""The composition root: the only file that names the concrete classes and introduces the rooms to each other.

Rules: opened in this order, closed in the reverse one: store, memory, keeper, bridge, tools, pool, sessions, HTTP.
Time, randomness, environment and ids come from here.
"""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

from starlette.types import ASGIApp

from ostler.bridge.channels.http import HttpChannel
from ostler.bridge.channels.http_app import HttpSettings
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.upstreams.remote import ExtraMissing
from ostler.bridge.upstreams.shared import Upstreams
from ostler.gateway.api.application import application, table
from ostler.gateway.api.chat import Chat
from ostler.gateway.api.conversations import Conversations
from ostler.gateway.api.door import Door
from ostler.gateway.api.feed import Feeds
from ostler.gateway.api.health import Health
from ostler.gateway.api.intake import Intake
from ostler.gateway.api.keys import key_ring
from ostler.gateway.api.models import ModelList
from ostler.gateway.api.prefixes import Prefixes
from ostler.gateway.api.repeats import Repeats
from ostler.gateway.api.resource import incomplete
from ostler.gateway.api.responses import Responses
from ostler.gateway.api.sessions import SessionRoutes
from ostler.gateway.api.slash import Slash
from ostler.gateway.api.target import Finder
from ostler.gateway.api.wants import Places
from ostler.gateway.commands import load as load_commands
from ostler.gateway.config.check import check, upstream_settings, work_folder
from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.load import Loaded
from ostler.gateway.config.settings import PoolSettings, Settings
from ostler.gateway.data_folder import DATABASE, MIRRORS
from ostler.gateway.faces.admission import Admission
from ostler.gateway.faces.face import Face
from ostler.gateway.faces.hall import Hall
from ostler.gateway.ids import Ids
from ostler.gateway.lines import Lines
from ostler.gateway.memory import load as load_memory
from ostler.gateway.memory.memories import Memories
from ostler.gateway.memory.provider import MakeProvider, MemoryHome
from ostler.gateway.memory.users import Users
from ostler.gateway.readiness import Readiness
from ostler.gateway.resets.expiry import Expiry
from ostler.gateway.resets.policies import policies_of
from ostler.gateway.sessions.house import House
from ostler.gateway.sessions.mirrors import Mirrors
from ostler.gateway.sessions.permits import Permits, Rule
from ostler.gateway.sessions.sessions import Sessions
from ostler.gateway.sessions.witness import Witness
from ostler.gateway.sessions.workshop import Workshop
from ostler.gateway.store import Store
from ostler.gateway.stores.mirror import Mirror
from ostler.gateway.stores.owner import Ownership
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.stores.sqlite.store import SqliteSettings
from ostler.gateway.tools import load as load_sources
from ostler.pool import configuration as pool_configuration
from ostler.pool.crew import Crew
from ostler.pool.gate import OpenGates
from ostler.pool.pool import TransportPool
from ostler.pool.ports import ToolSet
from ostler.pool.process.keeper import Keeper
from ostler.pool.provider import ToolChannel
from ostler.pool.providers import load as load_providers
from ostler.pool.transport import Transport

log = logging.getLogger(__name__)
NO_MEMORY: Mapping[str, MakeProvider] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Gateway:
    """What runs."""

    app: ASGIApp
    sessions: Sessions
    pool: TransportPool
    bridge: Bridge
    store: Store
    memories: Memories
    readiness: Readiness
    expiry: Expiry


@asynccontextmanager
async def open_gateway(
    loaded: Loaded,
    environ: Mapping[str, str],
    *,
    wall: Callable[[], float] = time.time,
    witness: Witness | None = None,
    memory: Mapping[str, MakeProvider] = NO_MEMORY,
) -> AsyncIterator[Gateway]:
    """A whole gateway on the running loop, without a listener. `wall` is the clock on the wall, `witness` hears
    what becomes of conversations instead of memory, `memory` has makers of providers that no package offers."""
    settings, folder = loaded.settings, loaded.data_dir
    models, wanted = check(settings, folder, memory)
    policies = policies_of(settings.resets, environ)
    work = prepare_folder(folder, work_folder(settings, folder))
    providers = load_providers()
    readiness = Readiness(clock=time.monotonic, expects=bool(wanted.warm) and wanted.enabled)
    async with AsyncExitStack() as stack:
        stack.enter_context(Ownership.take(folder, pid=os.getpid()))
        limits = SqliteSettings(responses_max=settings.gateway.responses_max)
        store = await SqliteStore.open(folder / DATABASE, settings=limits, clock=wall)
        stack.push_async_callback(store.aclose)
        memories = await stack.enter_async_context(open_memory(loaded, store, wall, memory))
        keeper = await Keeper.open(folder / "run", secrets.token_hex(8))
        stack.push_async_callback(keeper.aclose)
        tool_channel = await stack.enter_async_context(open_tool_channel(wanted, settings.tools.http_port))
        bridge = Bridge(bridge_settings(folder, environ, settings.tools.call_deadline), http=tool_channel)
        await bridge.start()
        stack.push_async_callback(bridge.stop)
        workshop = await stack.enter_async_context(open_workshop(settings, memories))
        pool = TransportPool(
            await equipped(wanted, workshop),
            providers=providers,
            start_transport=partial(Transport.start, keeper=keeper, gates=OpenGates()),
            environ=environ,
            tool_port=bridge,
            observer=readiness,
        )
        await stack.enter_async_context(pool)
        crew = Crew(asyncio.get_running_loop(), log_death)
        ids, told = Ids(secrets.token_bytes), witness or memories
        mirrors = Mirrors(store, Mirror(folder / MIRRORS), crew, enabled=settings.gateway.mirrors)
        workshop = await stack.enter_async_context(open_workshop(settings))
        permits = permits_of(settings.pool)
        house = House(
            pool, store, providers, settings.gateway, ids, crew, time.monotonic, wall, told, mirrors, permits, workshop
        )
        sessions = await stack.enter_async_context(open_sessions(house))
        await close_unfinished(store)
        hall = Hall(sessions, Places(models, work, wanted.roots, house.permits), policies)
        app = build_app(loaded, hall, readiness)
        expiry = Expiry(sessions, policies, settings.resets.check_every)
        house.crew.start(expiry.run(), "expiry")
        yield Gateway(app, sessions, pool, bridge, store, memories, readiness, expiry)


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


async def equipped(wanted: pool_configuration.PoolSettings, workshop: Workshop) -> pool_configuration.PoolSettings:
    """Seats that are kept ready have the tools that sessions will ask for: a seat is opened with its tools."""
    tools = await workshop.usual() if wanted.warm else ()
    return replace(wanted, warm=tuple(replace(key, tools=ToolSet(tools)) for key in wanted.warm)) if tools else wanted


@asynccontextmanager
async def open_workshop(settings: Settings, memories: Memories) -> AsyncIterator[Workshop]:
    """Our own tools, memory's, and the configured tool servers, which start while the gateway is serving already."""
    sources = load_sources() if settings.tools.own else ()
    servers = upstream_settings(settings)
    if not servers:
        yield Workshop(sources, wanted=settings.tools.own, always=[memories.source])
        return
    try:
        upstreams = Upstreams(servers)
    except ExtraMissing as error:
        raise ConfigError("configuration", str(error)) from error
    for upstream in upstreams.shared:
        upstream.start()
    try:
        yield Workshop(sources, wanted=settings.tools.own, always=[memories.source], upstreams=upstreams)
    finally:
        await upstreams.stop()


async def close_unfinished(store: Store) -> None:
    """Responses that a gateway left behind when it died: nobody works on them any more, and their readers may know."""
    for response in await store.unfinished_responses():
        body = {**response.body, "status": "incomplete", "incomplete_details": incomplete("gateway_restarted")}
        await store.save_response(replace(response, status="incomplete", body=body))


@asynccontextmanager
async def open_memory(
    loaded: Loaded, store: Store, wall: Callable[[], float], given: Mapping[str, MakeProvider]
) -> AsyncIterator[Memories]:
    """The providers of memory and the worker that tells them what happens; none where memory is switched off."""
    settings = loaded.settings.memory
    home = MemoryHome(loaded.data_dir, settings, wall, Ids(secrets.token_bytes).make)
    crew = Crew(asyncio.get_running_loop(), log_death)
    memories = Memories(load_memory(home, given=given) if settings.enabled else {}, Users(store), settings)
    worker = crew.start(memories.work(), "memory")
    try:
        yield memories
    finally:
        await memories.close(worker)
        await crew.disband()


@asynccontextmanager
async def open_sessions(house: House) -> AsyncIterator[Sessions]:
    """The sessions and the owner of their tasks."""
    sessions = Sessions(house)
    try:
        yield sessions
    finally:
        await sessions.drain(0)
        sessions.close()
        await house.mirrors.settled()
        await house.crew.disband()


def build_app(loaded: Loaded, hall: Hall, readiness: Readiness) -> ASGIApp:
    """The HTTP side."""
    sessions, places = hall.sessions, hall.places
    settings, store = loaded.settings, sessions.house.store
    gateway, auth = settings.gateway, settings.auth
    commands = load_commands()
    slash = Slash(commands, hall) if gateway.commands_on_openai_api else None
    intake = Intake(sessions, Finder(store, sessions.house.ids), places, Prefixes(gateway.sessions_max), slash)
    feeds = Feeds(most=gateway.stream_replay, bytes_at_most=gateway.replay_bytes)
    responses = Responses(sessions, intake, feeds, Repeats(store))
    rows = table(
        responses,
        Chat(sessions, intake),
        conversations=Conversations(store, sessions.house.ids),
        sessions=SessionRoutes(Face(hall, commands, Admission(hall), Lines())),
        models=ModelList(places.models, int(time.time())),
        health=Health(sessions, readiness),
    )
    return Door(
        application(rows, version("ostler")),
        ring=key_ring(auth),
        allowed_hosts=auth.allowed_hosts,
        cors_origins=auth.cors_origins,
        body_limit=gateway.body_limit,
        clock=time.monotonic,
    )


def permits_of(pool: PoolSettings) -> Permits:
    """What agents hear that ask."""
    models = {model: Rule(word) for model, word in pool.model_permissions.items()}
    return Permits(Rule(pool.permissions), models, pool.permission_deadline)


def prepare_folder(folder: Path, work: Path) -> Path:
    """The data folder, for its owner only, and the directory where agents work when nobody names one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    return work


def bridge_settings(folder: Path, environ: Mapping[str, str], call_deadline: float) -> BridgeSettings:
    """Where the socket is."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    return BridgeSettings(
        data_directory=folder,
        runtime_directory=Path(runtime) if runtime else None,
        call_deadline=call_deadline,
    )


def log_death(name: str, error: BaseException) -> None:
    """A task that died is a bug of ours: it took one turn with it, and is seen."""
    log.critical("%s died: %s", name, error, exc_info=error)
