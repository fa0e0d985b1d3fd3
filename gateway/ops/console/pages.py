"""The browser pages: status at `/` and `/status`, its live stream, its orders, and the chat.

Rules: `AuthMiddleware` has identified the caller. The status is for operators only; another key gets a page that says
so and links to the chat. A form that sends an order carries the page's token; with or without JavaScript the order is
the same.
"""

import hmac
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.gateway.http.answers import SSE, caller_of, document
from ostler.gateway.http.application import guarded
from ostler.gateway.http.errors import reply
from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.ops.admin import facts_of
from ostler.gateway.ops.console.browser_sessions import COOKIE, BrowserSessions
from ostler.gateway.ops.console.cookie_login import LOGIN, fields
from ostler.gateway.ops.console.errors import ConsoleError
from ostler.gateway.ops.console.html_page import HtmlPage
from ostler.gateway.ops.console.operator import Done, Named, Operator
from ostler.gateway.ops.console.status_html import live, status_body
from ostler.gateway.ops.console.status_view import StatusView, Watch
from ostler.pool.errors import PoolError
from ostler.wire.json import JsonObject

VERBS = ("warm", "pause", "resume", "drain", "recycle", "kill", "reconnect")
PATHS = ("/", "/status", "/status/events", "/act", "/chat", "/logout", LOGIN)


class Pages:
    """The routes of the pages and of the orders they send."""

    def __init__(
        self, status_view: StatusView, operator: Operator, html: HtmlPage, token: str, browser_sessions: BrowserSessions
    ) -> None:
        self._status_view = status_view
        self._operator = operator
        self._html = html
        self._token = token
        self._browser_sessions = browser_sessions
        self._drawn: tuple[JsonObject, bytes] | None = None
        """The last state that was rendered, and its frame, shared by all watchers."""

    def application(self) -> Starlette:
        """Build the ASGI application of the pages."""
        return Starlette(
            routes=[
                Route("/", guarded(self.status)),
                Route("/status", guarded(self.status)),
                Route("/status/events", guarded(self.events)),
                Route("/act", guarded(self.act), methods=["POST"]),
                Route("/chat", guarded(self.chat)),
                Route("/logout", guarded(self.logout), methods=["POST"]),
                Route(LOGIN, guarded(self.home)),
            ]
        )

    async def status(self, request: Request) -> Response:
        """Handle `GET /` and `GET /status`."""
        if not caller_of(request).admin:
            return self._not_for_you()
        verb = request.query_params.get("done", "")
        return self._status(request, f"Done: {verb}." if verb in VERBS else "", 200)

    async def events(self, request: Request) -> Response:
        """Handle `GET /status/events`: stream the live part of the page."""
        self._require_operator(request)
        try:
            watch = self._status_view.watch()
        except ConsoleError as error:
            raise ApiError(error.status, str(error), code=error.code) from error
        return StreamingResponse(self._frames(watch), headers=SSE)

    async def act(self, request: Request) -> Response:
        """Handle `POST /act`: an order from a form. A script gets JSON; a browser without one is redirected to the
        status page."""
        self._require_operator(request)
        form = fields(await request.body())
        if not hmac.compare_digest(form.get("token", "").encode(), self._token.encode()):
            raise ApiError(403, "this order does not come from the status page; reload it", code="foreign_page")
        scripted = request.headers.get("accept") == "application/json"
        try:
            done = await self._order(form)
        except (ConsoleError, PoolError) as error:
            status, code = (error.status, error.code) if isinstance(error, ConsoleError) else (409, "refused_by_pool")
            if scripted:
                return reply(ApiError(status, str(error), code=code))
            return self._status(request, f"Not done: {error}", status)
        return document(facts_of(done)) if scripted else RedirectResponse(f"/?done={quote(done.verb)}", 303)

    async def chat(self, _request: Request) -> Response:
        """Handle `GET /chat`: the chat page."""
        page = self._html.page("Chat", CHAT, script="chat")
        return HTMLResponse(page.html, 200, page.headers)

    async def logout(self, request: Request) -> Response:
        """Handle `POST /logout`: end the sign-in."""
        self._browser_sessions.leave(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE)
        return answer

    async def home(self, _request: Request) -> Response:
        """Handle `GET /login` of a caller who is already signed in."""
        return RedirectResponse("/", 303)

    # --- parts ---

    def _status(self, request: Request, notice: str, status: int) -> Response:
        body = status_body(self._status_view.state(), self._token, notice, signed_in=COOKIE in request.cookies)
        page = self._html.page("Status", body, script="status")
        return HTMLResponse(page.html, status, page.headers)

    def _not_for_you(self) -> Response:
        page = self._html.page("Status", NOT_FOR_YOU, script=None)
        return HTMLResponse(page.html, 403, page.headers)

    def _require_operator(self, request: Request) -> None:
        if not caller_of(request).admin:
            raise ApiError(403, "this key is not an operator's", code="not_an_operator")

    async def _frames(self, watch: Watch) -> AsyncIterator[bytes]:
        async for state in watch:
            if self._drawn is None or self._drawn[0] is not state:
                frame = {"html": live(state, self._token), "time": state["time"]}
                self._drawn = (state, b"event: live\ndata: " + orjson.dumps(frame) + b"\n\n")
            yield self._drawn[1]

    async def _order(self, form: dict[str, str]) -> Done:
        verb, key, number = form.get("verb", ""), form.get("key"), form.get("process", "")
        named = Named(key, form.get("cwd")) if key else None
        do = self._operator
        match verb:
            case "pause":
                return await do.pause(named)
            case "resume":
                return await do.resume(named)
            case "recycle" | "kill" if number.isascii() and number.isdigit():
                return do.recycle(int(number)) if verb == "recycle" else do.kill(int(number))
            case "warm" if named is not None:
                return await do.warm(named, 1)
            case "drain" if named is not None:
                return await do.drain(named)
            case "reconnect" if named is not None:
                return await do.reconnect(named)
            case _:
                raise bad("name a verb, and the key or process it is for", "verb")


NAV = (
    '<header><h1>ostler</h1><nav aria-label="Pages"><a href="/"{status}>Status</a>'
    '<a href="/chat"{chat}>Chat</a><a href="/docs">API</a></nav></header>'
)
NOT_FOR_YOU = (
    NAV.format(status="", chat="")
    + "<main><h2>Not an operator's key</h2><p>You are signed in with a key that may use the agents. To see and steer "
    'the pool it must say <code>admin = true</code> in the configuration.</p><p><a href="/chat">To the chat</a></p>'
    '<form method="post" action="/logout"><button>Sign out</button></form></main>'
)
CHAT = (
    NAV.format(status="", chat=' aria-current="page"')
    + '<main id="main" class="chat"><h2>Chat</h2><noscript><p>The chat needs JavaScript.</p></noscript>'
    '<div id="log" role="log" aria-label="Conversation" tabindex="0"></div>'
    '<p id="state" role="status"></p><form id="ask"><label for="text">Message</label>'
    '<textarea id="text" name="text" rows="3" required placeholder="Enter sends, Shift+Enter begins a new line">'
    '</textarea><div class="acts"><button id="send">Send</button><button id="stop" type="button" hidden>Stop</button>'
    '<label for="session">Session</label><input id="session" name="session" maxlength="200" autocomplete="off">'
    "</div></form></main>"
)


@dataclass(frozen=True, slots=True)
class PathDispatch:
    """A plain ASGI application that delegates to three others. It runs inside `AuthMiddleware`, so the caller is known
    and every answer has the security headers."""

    api: ASGIApp
    admin: ASGIApp
    pages: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        chosen = self.pages if path in PATHS else self.admin if path.startswith("/admin/") else self.api
        await chosen(scope, receive, send)
