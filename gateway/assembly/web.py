"""The HTTP side: the API, the pages, the admin socket, and the door before them."""

import secrets
import time
from dataclasses import dataclass

from starlette.types import ASGIApp

from ostler.gateway.api.admin import Admin
from ostler.gateway.api.application import application, table
from ostler.gateway.api.chat import ChatCompletions
from ostler.gateway.api.conversations import ConversationRoutes
from ostler.gateway.api.correlation import Correlated
from ostler.gateway.api.door import AuthMiddleware
from ostler.gateway.api.feed import Feeds
from ostler.gateway.api.health import HealthRoutes
from ostler.gateway.api.intake import RequestPreparer
from ostler.gateway.api.keeping import Keys
from ostler.gateway.api.keys import Caller, KeyRing
from ostler.gateway.api.models import ModelList
from ostler.gateway.api.prefixes import Prefixes
from ostler.gateway.api.repeats import IdempotentAnswers
from ostler.gateway.api.responses import ResponseRoutes
from ostler.gateway.api.sessions import SessionRoutes
from ostler.gateway.api.slash import Slash
from ostler.gateway.api.target import SessionFinder
from ostler.gateway.commands import load as load_commands
from ostler.gateway.config.load import Loaded
from ostler.gateway.console.board import StatusView
from ostler.gateway.console.entrance import SignIn
from ostler.gateway.console.front import PathDispatch
from ostler.gateway.console.gate import OperatorGuard
from ostler.gateway.console.guests import BrowserSessions
from ostler.gateway.console.operator import Operator
from ostler.gateway.console.pages import PATHS, Pages
from ostler.gateway.console.shell import HtmlPage
from ostler.gateway.faces.admission import Admission
from ostler.gateway.faces.face import ChatFrontend
from ostler.gateway.faces.hall import ChatDeps
from ostler.gateway.gauges.gauges import Gauges, NoGauges
from ostler.gateway.lines import KeyedLocks
from ostler.gateway.readiness import Readiness
from ostler.gateway.release import version
from ostler.gateway.sessions.erasing import Eraser


@dataclass(frozen=True, slots=True)
class Console:
    """What operators see, and what they do."""

    board: StatusView
    operator: Operator


def build_app(
    loaded: Loaded,
    hall: ChatDeps,
    readiness: Readiness,
    console: Console,
    gauges: Gauges | NoGauges,
    *,
    keys: Keys,
    eraser: Eraser,
) -> ASGIApp:
    """The HTTP side."""
    sessions, places = hall.sessions, hall.places
    settings, store = loaded.settings, sessions.house.store
    gateway, auth = settings.gateway, settings.auth
    commands = load_commands()
    slash = Slash(commands, hall) if gateway.commands_on_openai_api else None
    prefixes, remembers = Prefixes(gateway.sessions_max), settings.memory.openai_api
    intake = RequestPreparer(sessions, SessionFinder(sessions), places, prefixes, slash, remembers=remembers)
    feeds = Feeds(most=gateway.stream_replay, bytes_at_most=gateway.replay_bytes)
    repeats = IdempotentAnswers(store)
    responses = ResponseRoutes(sessions, intake, feeds, repeats, eraser)
    rows = table(
        responses,
        ChatCompletions(sessions, intake, repeats),
        conversations=ConversationRoutes(store, sessions.house.ids, eraser),
        sessions=SessionRoutes(ChatFrontend(hall, commands, Admission(hall), KeyedLocks()), repeats),
        models=ModelList(places.models, int(time.time())),
        health=HealthRoutes(sessions, readiness),
    )
    clock, token = time.monotonic, secrets.token_urlsafe(24)
    shell, guests = HtmlPage(), BrowserSessions(keys, clock, lambda: secrets.token_urlsafe(32))
    front = PathDispatch(
        api=application([*rows, *gauges.rows()], version("ostler")),
        admin=OperatorGuard(application(Admin(console.board, console.operator).rows(), version("ostler")), token),
        pages=Pages(console.board, console.operator, shell, token, guests).application(),
    )
    door = AuthMiddleware(
        front,
        ring=keys,
        allowed_hosts=auth.allowed_hosts,
        cors_origins=auth.cors_origins,
        body_limit=gateway.body_limit,
        body_timeout=gateway.body_timeout,
        body_values=gateway.body_values,
        clock=clock,
        entrance=SignIn(guests, shell, clock),
        scrape_token=settings.metrics.token,
        commanded=gateway.commands_on_openai_api,
        forms=PATHS,
    )
    ids = sessions.house.ids
    return Correlated(gauges.around(door), lambda: ids.make("req"))


def build_admin(loaded: Loaded, console: Console) -> ASGIApp:
    """What the admin socket serves: who can open it is an operator."""
    return AuthMiddleware(
        application(Admin(console.board, console.operator).rows(), version("ostler")),
        ring=KeyRing(anyone=Caller("operator", admin=True)),
        allowed_hosts=(),
        cors_origins=(),
        body_limit=loaded.settings.gateway.body_limit,
        body_timeout=loaded.settings.gateway.body_timeout,
        body_values=loaded.settings.gateway.body_values,
        clock=time.monotonic,
    )
