"""Checks every request before a route sees it. Plain ASGI: a wrapper per request that hides the disconnect would
prevent cancelling a turn when its client leaves.

Rules:
- Without keys the gateway answers to loopback names only: a browser can be made to resolve any name to 127.0.0.1. No
  page of another origin may send requests, another port of this machine included, unless the origin is in
  `cors_origins`. A body must be declared as JSON, which a browser never sends for a foreign page without a preflight.
- A body is bounded in size and in time (`bounded.py`). Health routes need no key, and reveal nothing that a key
  protects.
- A browser that signed in on a page is known by its cookie; a request of it that changes something must come from a
  page of ours. An unknown client that asks for a page gets the sign-in page.
- `per_minute` counts requests that prompt an agent or store something. All others have a budget of their own, so that
  polling does not use up the first one. Only health and metrics are not metered.
- Every answer has the security headers. A 401 does not tell what was wrong.
"""

import hmac
import re
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.gateway.config.keys import Caller, KeySource, digest, host_names
from ostler.gateway.http.bounded import VALUES, BodyTooLarge, bounded
from ostler.gateway.http.errors import reply
from ostler.gateway.http.limits import CallerLimits, RequestSlot, TooManyRequests
from ostler.gateway.http.origin import SAFE, is_from_browser, is_from_foreign_page
from ostler.gateway.model.api_error import ApiError

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
SCRAPED = "/metrics"
UNMETERED = OPEN_PATHS | {SCRAPED}
WRONG_KEY = "send a valid key as 'Authorization: Bearer KEY'"
JSON = re.compile(r"application/(?:json|[\w.-]+\+json)\s*(?:;.*)?", re.IGNORECASE)
METERED = frozenset({"POST"})
CANCEL = re.compile(r"/v1/responses/[^/]+/cancel")
"""`/cancel` is exempt from the concurrency limit: a key at its limit must be able to stop one of its turns."""
READS_PER_MINUTE = 6000
"""The least number of requests per minute that prompt no agent, for every key, however low its `per_minute` is."""
FACE = re.compile(r"/v1/sessions/[\s\S]*/messages")
OPENAI = frozenset({"/v1/responses", "/v1/chat/completions"})
ASKED = (
    "authorization",
    "content-type",
    "idempotency-key",
    "traceparent",
    "x-ostler-csrf",
    "x-ostler-on-disconnect",
    "x-ostler-session",
    "x-request-id",
)
NAME = re.compile(r"[a-z0-9-]{1,64}")
THEIRS = ("openai-", "x-stainless-")
"""Prefixes of headers that OpenAI's own clients send; the gateway reads none of them."""
ANSWERED = ("retry-after", "x-ostler-session-id", "x-request-id")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
Headers = dict[bytes, bytes]


class LoginCheck(Protocol):
    """The sign-in of people who send no key."""

    def caller_of_cookie(self, scope: Scope, headers: Headers) -> Caller | None:
        """Return the caller that a cookie names; None if it names none, or the request does not come from a page of
        ours."""

    def turned_away(self, scope: Scope, error: ApiError) -> ASGIApp:
        """Return the answer for a request without access: the sign-in page or the error."""


class AuthMiddleware:
    """Wraps the application: authenticates, checks the origin, meters and bounds every request."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: KeySource,
        allowed_hosts: Sequence[str],
        cors_origins: Sequence[str],
        body_limit: int,
        body_timeout: float,
        body_values: int = VALUES,
        clock: Callable[[], float],
        login: LoginCheck | None = None,
        scrape_token: str | None = None,
        commanded: bool = False,
        forms: Collection[str] | None = None,
    ) -> None:
        """`scrape_token` gives access to /metrics and nothing else; without one, /metrics is checked like any other
        route. `commanded`: whether slash commands work on the OpenAI API. `forms`: paths that accept a form of our own
        pages; None: no browser can reach this listener, and a body need not declare its type."""
        self._app = app
        self._login = login
        self._scraper = None if scrape_token is None else digest(scrape_token)
        self._keys = keys
        self._hosts = host_names(allowed_hosts)
        self._origins = frozenset(cors_origins)
        self._body_limit = body_limit
        self._body_timeout = body_timeout
        self._body_values = body_values
        self._clock = clock
        self._limits = CallerLimits()
        self._read_limits = CallerLimits(at_least=READS_PER_MINUTE)
        self._forms = forms
        self._commanded = commanded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        outward = self._outward(send, origin)
        if scope["method"] == "OPTIONS" and origin in self._origins:
            wanted = headers.get(b"access-control-request-headers", b"").decode("latin-1")
            allowed = (b"access-control-allow-headers", ", ".join(allowed_headers(wanted)).encode("latin-1"))
            await outward({"type": "http.response.start", "status": 204, "headers": [allowed]})
            await outward({"type": "http.response.body", "body": b""})
            return
        try:
            caller = self._admit(scope, headers, origin)
        except ApiError as error:
            login = None if self._keys.open else self._login
            refused = reply(error) if login is None else login.turned_away(scope, error)
            await refused(scope, self._bounded(receive), outward)
            return
        await self._serve(scope, self._bounded(receive), outward, caller)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
        place = RequestSlot(self._limits, caller, self._clock())
        scope["state"] = {**scope.get("state", {}), "caller": caller, "place": place}
        if scope["method"] not in METERED or CANCEL.fullmatch(scope["path"]):
            await self._serve_read(scope, receive, send, caller)
            return
        try:
            if not self._may_command(scope["path"]):
                place.take()
            place.count()
        except TooManyRequests as error:
            place.give_back()
            await reply(error)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            place.give_back()

    async def _serve_read(self, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
        """Pass on a request that prompts no agent, metered by its own budget."""
        try:
            if scope["path"] not in UNMETERED:
                self._read_limits.spend(caller, self._clock())
        except TooManyRequests as error:
            await reply(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _may_command(self, path: str) -> bool:
        """Whether only the route knows if an agent is prompted; the route then takes the slot itself. A command that
        stops a turn or answers its question is needed most when no slot is left."""
        return (self._commanded and path in OPENAI) or FACE.fullmatch(path) is not None

    def _admit(self, scope: Scope, headers: Headers, origin: str) -> Caller:
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._body_limit:
            raise BodyTooLarge(self._body_limit)
        if self._keys.open:
            self._check_page(scope, headers, origin)
        if scope["path"] == SCRAPED and self._scraper is not None:
            self._check_scraper(headers)
            return self._keys.anyone
        if self._keys.open or scope["path"] in OPEN_PATHS:
            return self._keys.anyone
        key = key_in(headers)
        caller = self._keys.caller(key) if key else None
        if self._login is not None and b"authorization" not in headers:
            caller = self._login.caller_of_cookie(scope, headers)
        if caller is None:
            raise ApiError(401, WRONG_KEY, code="invalid_api_key")
        return caller

    def _check_scraper(self, headers: Headers) -> None:
        if self._scraper is None or not hmac.compare_digest(self._scraper, digest(key_in(headers))):
            raise ApiError(401, WRONG_KEY, code="invalid_api_key")

    def _check_page(self, scope: Scope, headers: Headers, origin: str) -> None:
        host = name_of(headers.get(b"host", b"localhost").decode("latin-1"))
        if host not in self._hosts:
            text = f"this gateway has no keys and answers to loopback names only, not to {host[:80]!r}; "
            raise ApiError(403, text + "set OSTLER_API_KEY, or add the name to auth.allowed_hosts", code="foreign_host")
        if origin not in self._origins and is_from_foreign_page(scope, headers):
            whose = f"of {origin[:80]!r}" if origin else "of another origin"
            text = f"pages {whose} may not use this gateway; "
            raise ApiError(403, text + "add the origin to auth.cors_origins", param="origin", code="foreign_origin")
        self._check_type(scope, headers)

    def _check_type(self, scope: Scope, headers: Headers) -> None:
        """Refuse a body that is not declared as JSON: a page may send plain text and forms to any origin, and old
        browsers do not always state the page. A request of a program that declares no type is accepted."""
        sized = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        if self._forms is None or scope["method"] in SAFE or not sized or scope["path"] in self._forms:
            return
        given = headers.get(b"content-type", b"").decode("latin-1")
        if not given and not is_from_browser(headers):
            return
        if JSON.fullmatch(given) is None:
            text = f"the body is declared as {given[:80]!r}; " if given else "the body is not declared; "
            advice = "send JSON with the header 'content-type: application/json'"
            raise ApiError(415, text + advice, param="content-type", code="unsupported_media_type")

    def _outward(self, send: Send, origin: str) -> Send:
        extra = [*HEADERS, *(cors(origin) if origin in self._origins else ())]

        async def outward(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                said = {name for name, _ in given}
                message["headers"] = [*given, *(pair for pair in extra if pair[0] not in said)]
            await send(message)

        return outward

    def _bounded(self, receive: Receive) -> Receive:
        return bounded(receive, self._body_limit, self._body_timeout, self._body_values)


def key_in(headers: Headers) -> str:
    """Return the bearer token of a request, "" if there is none."""
    scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def name_of(host: str) -> str:
    """Return the host of a `Host` header without its port, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def allowed_headers(wanted: str) -> list[str]:
    """Return the headers that a page may send: all that the gateway reads, and those requested ones that OpenAI's
    clients send."""
    names = (name.strip().lower() for name in wanted.split(","))
    return [*ASKED, *(name for name in names if name.startswith(THEIRS) and NAME.fullmatch(name))]


def cors(origin: str) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers that let a page of this origin read the answer."""
    return (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
        (b"access-control-allow-headers", ", ".join(ASKED).encode()),
        (b"access-control-expose-headers", ", ".join(ANSWERED).encode()),
        (b"vary", b"origin"),
    )
