"""The composition root: the only file that names the concrete classes and introduces the rooms to each other.

Rules: opened in this order, closed in the reverse one: store, keeper, bridge, pool, sessions, HTTP. Time, randomness,
environment and ids come from here.
"""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

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
from ostler.gateway.api.target import Finder
from ostler.gateway.api.wants import Places
from ostler.gateway.config.asking import permits_of
from ostler.gateway.config.check import check, upstream_settings, work_folder
from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.load import Loaded
from ostler.gateway.config.settings import Settings
from ostler.gateway.data_folder import DATABASE
from ostler.gateway.ids import Ids
from ostler.gateway.readiness import Readiness
from ostler.gateway.sessions.house import House
from ostler.gateway.sessions.permits import Permits
from ostler.gateway.sessions.sessions import Sessions
from ostler.gateway.sessions.witness import NoWitness
from ostler.gateway.sessions.workshop import Workshop
from ostler.gateway.store import Store
from ostler.gateway.stores.owner import Ownership
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.stores.sqlite.store import SqliteSettings
from ostler.gateway.tools import load as load_sources
from ostler.pool import configuration as pool_configuration
from ostler.pool.crew import Crew
from ostler.pool.gate import OpenGates
from ostler.pool.pool import TransportPool
from ostler.pool.process.keeper import Keeper
from ostler.pool.provider import Provider, ToolChannel
from ostler.pool.providers import load as load_providers
from ostler.pool.transport import Transport

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gateway:
    """What runs."""

    app: ASGIApp
    sessions: Sessions
    pool: TransportPool
    bridge: Bridge
    store: Store
    readiness: Readiness


@asynccontextmanager
async def open_gateway(loaded: Loaded, environ: Mapping[str, str]) -> AsyncIterator[Gateway]:
    """A whole gateway on the running loop, without a listener."""
    settings, folder = loaded.settings, loaded.data_dir
    models, wanted = check(settings, folder)
    work = prepare_folder(folder, work_folder(settings, folder))
    providers = load_providers()
    readiness = Readiness(clock=time.monotonic, expects=bool(wanted.warm) and wanted.enabled)
    async with AsyncExitStack() as stack:
        stack.enter_context(Ownership.take(folder, pid=os.getpid()))
        limits = SqliteSettings(responses_max=settings.gateway.responses_max)
        store = await SqliteStore.open(folder / DATABASE, settings=limits)
        stack.push_async_callback(store.aclose)
        keeper = await Keeper.open(folder / "run", secrets.token_hex(8))
        stack.push_async_callback(keeper.aclose)
        tool_channel = await stack.enter_async_context(open_tool_channel(wanted, settings.tools.http_port))
        bridge = Bridge(bridge_settings(folder, environ, settings.tools.call_deadline), http=tool_channel)
        await bridge.start()
        stack.push_async_callback(bridge.stop)
        pool = TransportPool(
            wanted,
            providers=providers,
            start_transport=partial(Transport.start, keeper=keeper, gates=OpenGates()),
            environ=environ,
            tool_port=bridge,
            observer=readiness,
        )
        await stack.enter_async_context(pool)
        permits = permits_of(settings, models, wanted)
        workshop = await stack.enter_async_context(open_workshop(settings))
        sessions = await stack.enter_async_context(
            open_sessions(loaded, pool, store, providers, permits=permits, workshop=workshop)
        )
        await close_unfinished(store)
        app = build_app(loaded, sessions, Places(models, work, wanted.roots, sessions.house.permits), readiness)
        yield Gateway(app, sessions, pool, bridge, store, readiness)


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


@asynccontextmanager
async def open_workshop(settings: Settings) -> AsyncIterator[Workshop]:
    """Our own tools, and the configured tool servers, which start while the gateway is serving already."""
    sources = load_sources() if settings.tools.own else ()
    servers = upstream_settings(settings)
    if not servers:
        yield Workshop(sources, wanted=settings.tools.own)
        return
    try:
        upstreams = Upstreams(servers)
    except ExtraMissing as error:
        raise ConfigError("configuration", str(error)) from error
    for upstream in upstreams.shared:
        upstream.start()
    try:
        yield Workshop(sources, wanted=settings.tools.own, upstreams=upstreams)
    finally:
        await upstreams.stop()


async def close_unfinished(store: Store) -> None:
    """Responses that a gateway left behind when it died: nobody works on them any more, and their readers may know."""
    for response in await store.unfinished_responses():
        body = {**response.body, "status": "incomplete", "incomplete_details": incomplete("gateway_restarted")}
        await store.save_response(replace(response, status="incomplete", body=body))


@asynccontextmanager
async def open_sessions(
    loaded: Loaded,
    pool: TransportPool,
    store: Store,
    providers: Mapping[str, Provider],
    *,
    permits: Permits,
    workshop: Workshop,
) -> AsyncIterator[Sessions]:
    """The sessions and the owner of their tasks."""
    crew = Crew(asyncio.get_running_loop(), log_death)
    ids = Ids(secrets.token_bytes)
    house = House(
        pool,
        store,
        providers,
        loaded.settings.gateway,
        ids,
        crew,
        time.monotonic,
        time.time,
        NoWitness(),
        permits,
        workshop,
    )
    sessions = Sessions(house)
    try:
        yield sessions
    finally:
        await sessions.drain(0)
        sessions.close()
        await crew.disband()


def build_app(loaded: Loaded, sessions: Sessions, places: Places, readiness: Readiness) -> ASGIApp:
    """The HTTP side."""
    settings, store = loaded.settings, sessions.house.store
    gateway, auth = settings.gateway, settings.auth
    intake = Intake(sessions, Finder(store, sessions.house.ids), places, Prefixes(gateway.sessions_max))
    feeds = Feeds(most=gateway.stream_replay, bytes_at_most=gateway.replay_bytes)
    responses = Responses(sessions, intake, feeds, Repeats(store))
    rows = table(
        responses,
        Chat(sessions, intake),
        Conversations(store, sessions.house.ids),
        ModelList(places.models, int(time.time())),
        Health(sessions, readiness),
    )
    return Door(
        application(rows, version("ostler")),
        ring=key_ring(auth),
        allowed_hosts=auth.allowed_hosts,
        cors_origins=auth.cors_origins,
        body_limit=gateway.body_limit,
        clock=time.monotonic,
    )


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
