"""Assembles the HTTP side: the API, the pages, the admin socket, and `AuthMiddleware` around them."""

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import ASGIApp

from ostler.gateway.chat.admission import Admission
from ostler.gateway.chat.commands import load as load_commands
from ostler.gateway.chat.deps import ChatDeps
from ostler.gateway.chat.frontend import ChatFrontend
from ostler.gateway.config.keys import Caller, KeyRing
from ostler.gateway.config.load import Loaded
from ostler.gateway.http.answering import Answering
from ostler.gateway.http.application import application, table
from ostler.gateway.http.auth_middleware import AuthMiddleware
from ostler.gateway.http.chat import ChatCompletions
from ostler.gateway.http.conversations import ConversationRoutes
from ostler.gateway.http.correlation import Correlated
from ostler.gateway.http.health import HealthRoutes
from ostler.gateway.http.idempotency import IdempotentAnswers
from ostler.gateway.http.keys import Keys
from ostler.gateway.http.models import ModelList
from ostler.gateway.http.prefixes import Prefixes
from ostler.gateway.http.request_preparer import RequestPreparer
from ostler.gateway.http.responses import ResponseRoutes
from ostler.gateway.http.session_finder import SessionFinder
from ostler.gateway.http.sessions import SessionRoutes
from ostler.gateway.http.slash import Slash
from ostler.gateway.http.streaming import KeptAnswers
from ostler.gateway.model.keyed_locks import KeyedLocks
from ostler.gateway.model.release import version
from ostler.gateway.ops.admin import Admin
from ostler.gateway.ops.console.browser_sessions import BrowserSessions
from ostler.gateway.ops.console.cookie_login import SignIn
from ostler.gateway.ops.console.html_page import HtmlPage
from ostler.gateway.ops.console.operator import Operator
from ostler.gateway.ops.console.operator_guard import OperatorGuard
from ostler.gateway.ops.console.pages import PATHS, Pages, PathDispatch
from ostler.gateway.ops.console.status_view import StatusView
from ostler.gateway.ops.gauges.gauges import Gauges, NoGauges
from ostler.gateway.ops.readiness import Readiness
from ostler.gateway.server.reloading import Reloaded
from ostler.gateway.turns.erasing import Eraser


@dataclass(frozen=True, slots=True)
class Console:
    """The state that operators see, and the verbs they use."""

    status_view: StatusView
    operator: Operator
    reload: Callable[[], Awaitable[Reloaded]]


def build_app(
    loaded: Loaded,
    chat_deps: ChatDeps,
    readiness: Readiness,
    console: Console,
    gauges: Gauges | NoGauges,
    *,
    keys: Keys,
    eraser: Eraser,
) -> ASGIApp:
    """Build the application of the listener: API, admin API and pages, behind authentication."""
    sessions, places = chat_deps.sessions, chat_deps.places
    settings, store = loaded.settings, sessions.deps.store
    gateway, auth = settings.gateway, settings.auth
    commands = load_commands()
    slash = Slash(commands, chat_deps) if gateway.commands_on_openai_api else None
    prefixes, remembers = Prefixes(gateway.sessions_max), settings.memory.openai_api
    preparer = RequestPreparer(sessions, SessionFinder(sessions), places, prefixes, slash, remembers=remembers)
    kept = KeptAnswers(most=gateway.stream_replay, bytes_at_most=gateway.replay_bytes)
    answering = Answering(sessions.deps, IdempotentAnswers(store))
    responses = ResponseRoutes(sessions, preparer, kept, answering, eraser)
    rows = table(
        responses,
        ChatCompletions(sessions, preparer, answering),
        conversations=ConversationRoutes(store, sessions.deps.ids, eraser),
        sessions=SessionRoutes(ChatFrontend(chat_deps, commands, Admission(chat_deps), KeyedLocks()), answering),
        models=ModelList(places.models, int(time.time())),
        health=HealthRoutes(sessions, lambda: [problem.text for problem in readiness.problems]),
    )
    clock, token = time.monotonic, secrets.token_urlsafe(24)
    html, browser_sessions = HtmlPage(), BrowserSessions(keys, clock, lambda: secrets.token_urlsafe(32))
    dispatch = PathDispatch(
        api=application([*rows, *gauges.rows()], version("ostler")),
        admin=OperatorGuard(
            application(Admin(console.status_view, console.operator, console.reload).rows(), version("ostler")), token
        ),
        pages=Pages(console.status_view, console.operator, html, token, browser_sessions).application(),
    )
    authenticated = AuthMiddleware(
        dispatch,
        keys=keys,
        allowed_hosts=auth.allowed_hosts,
        cors_origins=auth.cors_origins,
        body_limit=gateway.body_limit,
        body_timeout=gateway.body_timeout,
        body_values=gateway.body_values,
        clock=clock,
        login=SignIn(browser_sessions, html, clock),
        scrape_token=settings.metrics.token,
        commanded=gateway.commands_on_openai_api,
        forms=PATHS,
    )
    ids = sessions.deps.ids
    return Correlated(gauges.around(authenticated), lambda: ids.make("req"))


def build_admin(loaded: Loaded, console: Console) -> ASGIApp:
    """Build the application of the admin socket: every peer that can open the socket is an operator."""
    return AuthMiddleware(
        application(Admin(console.status_view, console.operator, console.reload).rows(), version("ostler")),
        keys=KeyRing(anyone=Caller("operator", admin=True)),
        allowed_hosts=(),
        cors_origins=(),
        body_limit=loaded.settings.gateway.body_limit,
        body_timeout=loaded.settings.gateway.body_timeout,
        body_values=loaded.settings.gateway.body_values,
        clock=time.monotonic,
    )
