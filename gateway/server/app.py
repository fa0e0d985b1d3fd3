"""The composition root: it and `assembly/` are the only places that name the concrete classes and connect the rooms.

Rules: opened in this order and closed in reverse: lock of the data folder, store, memory, process supervisor, tool
channel, bridge, tools, pool, sessions, HTTP. Time, randomness, environment and ids are injected from here.
"""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from ostler.bridge.server import Bridge
from ostler.gateway.chat.deps import ChatDeps
from ostler.gateway.chat.resets.expiry import Expiry
from ostler.gateway.chat.resets.policies import Policies, policies_of
from ostler.gateway.chat.resets.retention import Retention
from ostler.gateway.config.approval import permits_of
from ostler.gateway.config.data_folder import DATABASE, MIRRORS, usable
from ostler.gateway.config.keys import key_ring
from ostler.gateway.config.load import Loaded
from ostler.gateway.config.settings import Settings
from ostler.gateway.http.keys import Keys
from ostler.gateway.http.unfinished import close_unfinished
from ostler.gateway.memory.memories import Memories
from ostler.gateway.memory.provider import MakeProvider
from ostler.gateway.model.ids import Ids
from ostler.gateway.model.observers import ConversationObserver
from ostler.gateway.model.release import version
from ostler.gateway.model.store import Store
from ostler.gateway.ops.checks import Checks, LastWrite, directory_check, model_check
from ostler.gateway.ops.console.operator import Operator
from ostler.gateway.ops.console.status_view import StatusSources, StatusView
from ostler.gateway.ops.console.turns import RecentTurns
from ostler.gateway.ops.gauges.census import LevelReader
from ostler.gateway.ops.gauges.gauges import MakeGauges, open_gauges
from ostler.gateway.ops.gauges.observers import Observers
from ostler.gateway.ops.gauges.traces import tracing
from ostler.gateway.ops.log import log_death
from ostler.gateway.ops.readiness import Readiness
from ostler.gateway.ops.settings_check import check, work_folder
from ostler.gateway.server.assembly.memory import open_memory
from ostler.gateway.server.assembly.tools import (
    bridge_settings,
    equipped,
    open_tool_channel,
    open_toolsets,
    usual_tools,
)
from ostler.gateway.server.assembly.web import Console, build_admin, build_app
from ostler.gateway.server.reloading import Reloadable, Reloader
from ostler.gateway.stores.mirror import Mirror
from ostler.gateway.stores.owner import Ownership
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.stores.sqlite.file import SqliteSettings
from ostler.gateway.turns.deps import SessionDeps
from ostler.gateway.turns.erasing import Eraser
from ostler.gateway.turns.mirrors import Mirrors
from ostler.gateway.turns.places import Places, directory_check_below
from ostler.gateway.turns.reports import TurnObservers
from ostler.gateway.turns.sessions import Sessions
from ostler.metrics.loops import Loops
from ostler.pool.agent.per_home import PerHome
from ostler.pool.agent.transport import Transport
from ostler.pool.keys import TransportKey, canonical_cwd
from ostler.pool.launch.directories import Directories
from ostler.pool.pool import TransportPool
from ostler.pool.providers import load as load_providers
from ostler.pool.tasks import TaskOwner
from ostler.process.supervisor import ProcessSupervisor

EMBEDDED = "a program that embeds ostler"
NO_MEMORY: Mapping[str, MakeProvider] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway and the parts that callers need."""

    app: ASGIApp
    admin: ASGIApp
    """The application of the admin socket."""
    keys: Keys
    reloader: Reloader
    sessions: Sessions
    pool: TransportPool
    bridge: Bridge
    store: Store
    memories: Memories
    readiness: Readiness
    expiry: Expiry
    retention: Retention


@asynccontextmanager
async def open_gateway(
    loaded: Loaded,
    environ: Mapping[str, str],
    *,
    wall: Callable[[], float] = time.time,
    observer: ConversationObserver | None = None,
    memory: Mapping[str, MakeProvider] = NO_MEMORY,
    gauges: MakeGauges = open_gauges,
    command: str = EMBEDDED,
) -> AsyncIterator[Gateway]:
    """Open a whole gateway on the running loop, without a listener.

    `wall` is the wall clock. `observer` observes conversations instead of memory. `memory` has makers of providers that
    no package offers. `gauges` makes the metrics. `command` is what the lock of the data folder says to other
    processes.
    """
    settings, folder = loaded.settings, loaded.data_dir
    models, wanted = check(settings, folder, memory, environ)
    policies = policies_of(settings.resets, environ)
    with usable(folder):
        work = prepare_folder(folder, work_folder(settings, folder))
    providers = load_providers()
    readiness = Readiness(
        clock=time.monotonic,
        loops=(loops := Loops()),
        expects=bool(wanted.warm) and wanted.enabled,
        late=settings.pool.start_late_after,
    )
    counts = gauges(CollectorRegistry(), settings, models)
    async with AsyncExitStack() as stack:
        with usable(folder):
            stack.enter_context(Ownership.take(folder, pid=os.getpid(), command=command, since=local_time(wall())))
        last_write = LastWrite(counts.store)
        store = await SqliteStore.open(
            folder / DATABASE, settings=store_settings(settings), clock=wall, watch=last_write, loops=loops
        )
        stack.push_async_callback(store.aclose)
        memories = await stack.enter_async_context(open_memory(loaded, store, wall, memory, counts.memory, loops=loops))
        with usable(folder):
            supervisor = await ProcessSupervisor.open(folder / "run", secrets.token_hex(8))
        stack.push_async_callback(supervisor.aclose)
        tool_channel = await stack.enter_async_context(open_tool_channel(wanted, settings.tools.http_port, loops))
        bridge = Bridge(bridge_settings(folder, environ, settings.tools.call_deadline), http=tool_channel, loops=loops)
        await bridge.start()
        stack.push_async_callback(bridge.stop)
        toolsets = await stack.enter_async_context(open_toolsets(settings, memories, loops))
        tool_sets = await usual_tools(toolsets, settings.memory)
        pool = TransportPool(
            equipped(wanted, tool_sets),
            providers=providers,
            start_transport=partial(Transport.start, supervisor=supervisor, per_home=PerHome()),
            environ=environ,
            tool_port=bridge,
            observer=Observers(readiness, counts.pool),
            loops=loops,
        )
        readiness.under_way = pool.under_way
        await stack.enter_async_context(pool)
        tasks = TaskOwner(asyncio.get_running_loop(), log_death)
        ids, observing = Ids(secrets.token_bytes), observer or memories
        mirrored, most = settings.gateway.mirrors, settings.gateway.sessions_max
        mirrors = Mirrors(store, Mirror(folder / MIRRORS), tasks, enabled=mirrored, most=most, loops=loops)
        traces = await stack.enter_async_context(
            tracing(settings.metrics.otlp_endpoint, lambda: time.time() - time.monotonic())
        )
        recent, clocks = RecentTurns(wall), (time.monotonic, wall)
        deps = SessionDeps(
            pool,
            store,
            providers,
            settings.gateway,
            ids,
            tasks,
            *clocks,
            observing,
            mirrors,
            permits_of(settings, models, wanted, providers),
            toolsets,
            TurnObservers(recent, counts.turns, traces),
        )
        sessions = await stack.enter_async_context(open_sessions(deps))
        await close_unfinished(store, ids)
        census = partial(
            LevelReader,
            pool=pool,
            bridge=bridge.stats,
            sessions=sessions,
            readiness=readiness,
            memories=memories,
            reaped=supervisor.reaped,
            database=folder / DATABASE,
            places={path: name for name, path in settings.metrics.places.items()},
        )
        stack.enter_context(counts.reading(census, loops))
        directories = Directories(directory_check_below(wanted.roots, work), time.monotonic)
        chat_deps = ChatDeps(sessions, Places(models, work, directories, deps.permits), policies)
        sources = StatusSources(sessions, readiness, recent, version("ostler"), *clocks)
        keys = Keys(key_ring(settings.auth))
        parts = Reloadable(
            keys,
            pool,
            models,
            deps.permits,
            directories,
            work,
            partial(equipped, tool_sets=tool_sets),
            lambda fresh: check(fresh.settings, folder, memory, environ),
            environ,
        )
        reloader = Reloader(loaded, parts.prepare, tasks, loops)
        console = Console(StatusView(sources), Operator(pool, models, work, tool_sets), reloader.reload)
        app = build_app(
            loaded, chat_deps, readiness, console, counts, keys=keys, eraser=Eraser(sessions, memories.session_erased)
        )
        expiry, retention = start_upkeep(sessions, policies, settings, memories, loops)
        await start_checks(folder, last_write, chat_deps, readiness)
        yield Gateway(
            app,
            build_admin(loaded, console),
            keys,
            reloader,
            sessions,
            pool,
            bridge,
            store,
            memories,
            readiness,
            expiry,
            retention,
        )


def start_upkeep(
    sessions: Sessions, policies: Policies, settings: Settings, memories: Memories, loops: Loops
) -> tuple[Expiry, Retention]:
    """Start the loops that end expired sessions and delete unreachable ones."""
    every, tasks = settings.resets.check_every, sessions.deps.tasks
    expiry = Expiry(sessions, policies, every, loops)
    tasks.start(expiry.run(), "expiry")
    retention = Retention(
        sessions,
        settings.retention,
        every,
        erased=memories.session_erased,
        expired=memories.session_expired,
        loops=loops,
    )
    tasks.start(retention.run(), "retention")
    return expiry, retention


async def start_checks(folder: Path, last_write: LastWrite, chat_deps: ChatDeps, readiness: Readiness) -> None:
    """Run the checks once, then start their loop."""
    deps, models, work = chat_deps.sessions.deps, chat_deps.places.models, chat_deps.places.default_cwd
    named_checks = {"directory": directory_check(canonical_cwd, work)}
    if (found := models.resolve(models.default)) is not None:
        key = TransportKey(*found, str(work))
        named_checks["model"] = model_check(models.default, partial(deps.pool.trouble_with, key))
    trial = partial(deps.store.set_mark, "gateway.trial", {"since": deps.wall()})
    checks = Checks(folder, last_write, trial, named_checks, deps.clock, readiness.loops)
    await checks.run_once()
    readiness.others = lambda: checks.problems
    deps.tasks.start(checks.run(), "checks")


@asynccontextmanager
async def open_sessions(deps: SessionDeps) -> AsyncIterator[Sessions]:
    """The sessions; at the end, stop their turns and wait for their tasks."""
    sessions = Sessions(deps)
    try:
        yield sessions
    finally:
        await sessions.drain(0)
        sessions.close()
        await deps.mirrors.settled()
        await deps.tasks.disband()


def store_settings(settings: Settings) -> SqliteSettings:
    """The store's part of the settings."""
    return SqliteSettings(responses_max=settings.gateway.responses_max)


def local_time(at: float) -> str:
    """A time as people read it, in the time zone of the machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def prepare_folder(folder: Path, work: Path) -> Path:
    """Create the data folder, private to its owner, and the directory of agents for requests that name none."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    return work
