"""The composition root: the only file that names the concrete classes and introduces the rooms to each other.

Rules: opened in this order, closed in the reverse one: store, keeper, bridge, pool, sessions, HTTP. Time, randomness,
environment and ids come from here.
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

from starlette.types import ASGIApp

from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.gateway.api.admin import Admin
from ostler.gateway.api.application import application, table
from ostler.gateway.api.chat import Chat
from ostler.gateway.api.conversations import Conversations
from ostler.gateway.api.door import Door
from ostler.gateway.api.feed import Feeds
from ostler.gateway.api.health import Health
from ostler.gateway.api.intake import Intake
from ostler.gateway.api.keys import Caller, KeyRing, key_ring
from ostler.gateway.api.models import ModelList
from ostler.gateway.api.prefixes import Prefixes
from ostler.gateway.api.repeats import Repeats
from ostler.gateway.api.responses import Responses
from ostler.gateway.api.sessions import SessionRoutes
from ostler.gateway.api.target import Finder
from ostler.gateway.api.wants import Places
from ostler.gateway.commands import load as load_commands
from ostler.gateway.config.check import check, work_folder
from ostler.gateway.config.load import Loaded
from ostler.gateway.console.board import Board, Lookout
from ostler.gateway.console.entrance import SignIn
from ostler.gateway.console.front import Front
from ostler.gateway.console.gate import Gate
from ostler.gateway.console.guests import Guests
from ostler.gateway.console.operator import Operator
from ostler.gateway.console.pages import Pages
from ostler.gateway.console.shell import Shell
from ostler.gateway.console.turns import RecentTurns
from ostler.gateway.data_folder import DATABASE, MIRRORS
from ostler.gateway.faces.admission import Admission
from ostler.gateway.faces.face import Face
from ostler.gateway.faces.hall import Hall
from ostler.gateway.ids import Ids
from ostler.gateway.lines import Lines
from ostler.gateway.readiness import Readiness
from ostler.gateway.resets.expiry import Expiry
from ostler.gateway.resets.policies import policies_of
from ostler.gateway.sessions.house import House
from ostler.gateway.sessions.mirrors import Mirrors
from ostler.gateway.sessions.sessions import Sessions
from ostler.gateway.sessions.witness import NoWitness, Witness
from ostler.gateway.store import Store
from ostler.gateway.stores.mirror import Mirror
from ostler.gateway.stores.owner import Ownership
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.stores.sqlite.store import SqliteSettings
from ostler.pool.crew import Crew
from ostler.pool.gate import OpenGates
from ostler.pool.permission import allow, deny
from ostler.pool.pool import TransportPool
from ostler.pool.process.keeper import Keeper
from ostler.pool.providers import load as load_providers
from ostler.pool.transport import Transport

log = logging.getLogger(__name__)
POLICIES = {"allow": allow, "deny": deny}


@dataclass(frozen=True, slots=True)
class Gateway:
    """What runs."""

    app: ASGIApp
    admin: ASGIApp
    """What the admin socket serves."""
    sessions: Sessions
    pool: TransportPool
    bridge: Bridge
    store: Store
    readiness: Readiness
    expiry: Expiry


@dataclass(frozen=True, slots=True)
class Console:
    """What operators see, and what they do."""

    board: Board
    operator: Operator


@asynccontextmanager
async def open_gateway(
    loaded: Loaded,
    environ: Mapping[str, str],
    *,
    wall: Callable[[], float] = time.time,
    witness: Witness | None = None,
) -> AsyncIterator[Gateway]:
    """A whole gateway on the running loop, without a listener. `wall` is the clock on the wall, `witness` hears
    what becomes of conversations."""
    settings, folder = loaded.settings, loaded.data_dir
    models, wanted = check(settings, folder)
    policies = policies_of(settings.resets, environ)
    work = prepare_folder(folder, work_folder(settings, folder))
    providers = load_providers()
    readiness = Readiness(clock=time.monotonic, expects=bool(wanted.warm) and wanted.enabled)
    async with AsyncExitStack() as stack:
        stack.enter_context(Ownership.take(folder, pid=os.getpid()))
        limits = SqliteSettings(responses_max=settings.gateway.responses_max)
        store = await SqliteStore.open(folder / DATABASE, settings=limits, clock=wall)
        stack.push_async_callback(store.aclose)
        keeper = await Keeper.open(folder / "run", secrets.token_hex(8))
        stack.push_async_callback(keeper.aclose)
        bridge = Bridge(bridge_settings(folder, environ, settings.tools.call_deadline))
        await bridge.start()
        stack.push_async_callback(bridge.stop)
        pool = TransportPool(
            wanted,
            providers=providers,
            start_transport=partial(Transport.start, keeper=keeper, gates=OpenGates()),
            environ=environ,
            tool_port=bridge,
            policy=POLICIES[settings.pool.permissions],
            observer=readiness,
        )
        await stack.enter_async_context(pool)
        crew = Crew(asyncio.get_running_loop(), log_death)
        ids, told = Ids(secrets.token_bytes), witness or NoWitness()
        mirrors = Mirrors(store, Mirror(folder / MIRRORS), crew, enabled=settings.gateway.mirrors)
        turns = RecentTurns(wall)
        clocks = (time.monotonic, wall)
        house = House(pool, store, providers, settings.gateway, ids, crew, *clocks, told, mirrors, turns)
        sessions = await stack.enter_async_context(open_sessions(house))
        await close_unfinished(store)
        hall = Hall(sessions, Places(models, work, wanted.roots), policies)
        lookout = Lookout(sessions, readiness, turns, version("ostler"), *clocks)
        console = Console(Board(lookout), Operator(pool, models, work))
        app = build_app(loaded, hall, readiness, console)
        expiry = Expiry(sessions, policies, settings.resets.check_every)
        sessions.house.crew.start(expiry.run(), "expiry")
        yield Gateway(app, build_admin(loaded, console), sessions, pool, bridge, store, readiness, expiry)


async def close_unfinished(store: Store) -> None:
    """Responses that a gateway left behind when it died: nobody works on them any more, and their readers may know."""
    for response in await store.unfinished_responses():
        body = {**response.body, "status": "incomplete", "incomplete_details": {"reason": "gateway_restarted"}}
        await store.save_response(replace(response, status="incomplete", body=body))


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


def build_app(loaded: Loaded, hall: Hall, readiness: Readiness, console: Console) -> ASGIApp:
    """The HTTP side."""
    sessions, places = hall.sessions, hall.places
    settings, store = loaded.settings, sessions.house.store
    gateway, auth = settings.gateway, settings.auth
    intake = Intake(sessions, Finder(store, sessions.house.ids), places, Prefixes(gateway.sessions_max))
    feeds = Feeds(most=gateway.stream_replay, bytes_at_most=gateway.replay_bytes)
    responses = Responses(sessions, intake, feeds, Repeats(store))
    rows = table(
        responses,
        Chat(sessions, intake),
        conversations=Conversations(store, sessions.house.ids),
        sessions=SessionRoutes(Face(hall, load_commands(), Admission(hall), Lines())),
        models=ModelList(places.models, int(time.time())),
        health=Health(sessions, readiness),
    )
    ring, clock, token = key_ring(auth), time.monotonic, secrets.token_urlsafe(24)
    shell, guests = Shell(), Guests(ring, clock, lambda: secrets.token_urlsafe(32))
    front = Front(
        api=application(rows, version("ostler")),
        admin=Gate(application(Admin(console.board, console.operator).rows(), version("ostler")), token),
        pages=Pages(console.board, console.operator, shell, token, guests).application(),
    )
    return Door(
        front,
        ring=ring,
        allowed_hosts=auth.allowed_hosts,
        cors_origins=auth.cors_origins,
        body_limit=gateway.body_limit,
        clock=clock,
        entrance=None if ring.open else SignIn(guests, shell, clock),
    )


def build_admin(loaded: Loaded, console: Console) -> ASGIApp:
    """What the admin socket serves: who can open it is an operator."""
    return Door(
        application(Admin(console.board, console.operator).rows(), version("ostler")),
        ring=KeyRing(anyone=Caller("operator", admin=True)),
        allowed_hosts=(),
        cors_origins=(),
        body_limit=loaded.settings.gateway.body_limit,
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
