"""Signing in on the pages of a gateway that has keys.

Rules:
- A cookie is believed for reading, and for changing only when the page that asks is ours: same host, same port. The
  cookie is HttpOnly and SameSite=Strict besides.
- Wrong keys are answered alike and only so fast: keys are long, and guessing gets no faster than the limit.
"""

from collections.abc import Callable
from html import escape
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.gateway.api.errors import ApiError, reply
from ostler.gateway.api.keys import Caller
from ostler.gateway.api.limits import Limits, Place, TooManyRequests
from ostler.gateway.console.guests import COOKIE, HOURS, Guests, cookie_of
from ostler.gateway.console.shell import Shell

PAGES = frozenset({"/", "/status", "/chat"})
LOGIN = "/login"
SAFE = frozenset({"GET", "HEAD"})
GUESSES = Caller("sign-in", concurrency=8, per_minute=30)
LONGEST = 4096


class SignIn:
    """The door's `Entrance`."""

    def __init__(self, guests: Guests, shell: Shell, clock: Callable[[], float]) -> None:
        self._guests = guests
        self._shell = shell
        self._clock = clock
        self._limits = Limits()

    def guest(self, scope: Scope, headers: dict[bytes, bytes]) -> Caller | None:
        cookie = cookie_of(headers)
        if cookie is None or not (scope["method"] in SAFE or own_page(headers)):
            return None
        return self._guests.caller(cookie)

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
        page = self._shell.page("Sign in", form, script=None)
        return HTMLResponse(page.html, status, page.headers)

    async def _sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        place = Place(self._limits, GUESSES, self._clock())
        try:
            place.take()
            place.count()
            answer = await self._judge(Request(scope, receive))
        except TooManyRequests:
            answer = self._page("/", "Too many tries; wait a minute.", 429)
        except ApiError as error:
            answer = reply(error)
        finally:
            place.give_back()
        await answer(scope, receive, send)

    async def _judge(self, request: Request) -> Response:
        headers = dict(request.scope["headers"])
        if b"origin" in headers and not own_page(headers):
            # A foreign page could sign a person in with its own key, and read what they then ask.
            return self._page("/", "Sign in from this page.", 403)
        form = fields(await request.body())
        after = form.get("after", "/")
        cookie = self._guests.admit(form.get("key", "").strip())
        if cookie is None:
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


def own_page(headers: dict[bytes, bytes]) -> bool:
    """Whether the page that asks came from this very host and port."""
    origin, host = headers.get(b"origin", b""), headers.get(b"host", b"")
    return bool(host) and origin.partition(b"://")[2] == host


def fields(body: bytes) -> dict[str, str]:
    """A form, the last value of each name. Cut at what a form of ours could need."""
    parsed = parse_qs(body[:LONGEST].decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=16)
    return {name: values[-1] for name, values in parsed.items()}
