"""Sign-in on the pages of a gateway that has keys.

Rules:
- A cookie is accepted for reading; for changes only if the request comes from our own page (`origin`). The cookie is
  also HttpOnly and SameSite=Strict.
- A valid key always signs in, even after wrong ones: no client can lock out another. Wrong keys get the same answer and
  are limited per minute for each network address; the last `ADDRESSES` addresses are remembered.
"""

from collections import OrderedDict
from collections.abc import Callable
from html import escape
from ipaddress import IPv4Address, ip_address
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.errors import reply
from ostler.gateway.http.limits import CallerLimits, TooManyRequests
from ostler.gateway.http.origin import SAFE, is_from_foreign_page, is_from_own_page
from ostler.gateway.model.api_error import ApiError
from ostler.gateway.ops.console.browser_sessions import COOKIE, HOURS, BrowserSessions, cookie_of
from ostler.gateway.ops.console.html_page import HtmlPage

PAGES = frozenset({"/", "/status", "/chat"})
LOGIN = "/login"
GUESSES_PER_MINUTE = 30
ADDRESSES = 1024
IPV6_PARTS = 4
"""How many of the eight groups of an IPv6 address identify a client: one customer usually has the whole /64 network."""
LONGEST = 4096


class SignIn:
    """The `LoginCheck` of `AuthMiddleware`."""

    def __init__(self, browser_sessions: BrowserSessions, html: HtmlPage, clock: Callable[[], float]) -> None:
        self._browser_sessions = browser_sessions
        self._html = html
        self._clock = clock
        self._wrong: OrderedDict[str, CallerLimits] = OrderedDict()

    def caller_of_cookie(self, scope: Scope, headers: dict[bytes, bytes]) -> Caller | None:
        cookie = cookie_of(headers)
        if cookie is None or not (scope["method"] in SAFE or is_from_own_page(scope, headers)):
            return None
        return self._browser_sessions.caller(cookie)

    def turned_away(self, scope: Scope, error: ApiError) -> ASGIApp:
        if error.status == 401 and scope["path"] == LOGIN and scope["method"] == "POST":
            return self._sign_in
        if error.status == 401 and scope["path"] in {LOGIN, *PAGES} and scope["method"] in SAFE:
            return self._page(scope["path"], "", 200 if scope["path"] == LOGIN else 401)
        return reply(error)

    def _page(self, path: str, notice: str, status: int) -> Response:
        after = path if path in PAGES else "/"
        said = f'<p class="notice bad" role="alert">{escape(notice)}</p>' if notice else ""
        form = (
            f'<h1>ostler</h1>{said}<form method="post" action="{LOGIN}" class="sign-in">'
            f'<input type="hidden" name="after" value="{escape(after)}">'
            '<label for="key">API key</label>'
            '<input id="key" name="key" type="password" autocomplete="current-password" required>'
            "<button>Sign in</button></form>"
            "<p>Everything here needs a key of this gateway. To see and steer the pool it must say "
            "<code>admin = true</code>.</p>"
        )
        page = self._html.page("Sign in", form, script=None)
        return HTMLResponse(page.html, status, page.headers)

    async def _sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._judge(Request(scope, receive))
        except TooManyRequests:
            answer = self._page("/", "Too many tries; wait a minute.", 429)
        except ApiError as error:
            answer = reply(error)
        await answer(scope, receive, send)

    def _count_wrong(self, scope: Scope) -> None:
        """Count a wrong key from the request's address. Raises `TooManyRequests`."""
        address = network_of(scope)
        limits = self._wrong.setdefault(address, CallerLimits())
        self._wrong.move_to_end(address)
        if len(self._wrong) > ADDRESSES:
            self._wrong.popitem(last=False)
        limits.spend(Caller(per_minute=GUESSES_PER_MINUTE), self._clock())

    async def _judge(self, request: Request) -> Response:
        headers = dict(request.scope["headers"])
        if is_from_foreign_page(request.scope, headers):
            # Otherwise a foreign page could sign a user in with the attacker's key, and the attacker could read the
            # user's chats.
            return self._page("/", "Sign in from this page.", 403)
        form = fields(await request.body())
        after = form.get("after", "/")
        cookie = self._browser_sessions.admit(form.get("key", "").strip())
        if cookie is None:
            self._count_wrong(request.scope)
            return self._page(after, "This is no key of this gateway.", 401)
        answer = RedirectResponse(quote(after) if after in PAGES else "/", 303)
        answer.set_cookie(
            COOKIE,
            cookie,
            max_age=int(HOURS),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer


def network_of(scope: Scope) -> str:
    """The address or network that a request comes from; "" for a unix socket."""
    client = scope.get("client")
    address = "" if client is None else str(client[0])
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address) or found.ipv4_mapped is not None:
        return address
    return ":".join(found.exploded.split(":")[:IPV6_PARTS])


def fields(body: bytes) -> dict[str, str]:
    """Parse a form, keeping the last value of each name. Input beyond the size of our own forms is cut."""
    parsed = parse_qs(body[:LONGEST].decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=16)
    return {name: values[-1] for name, values in parsed.items()}
