"""Sign-ins of browsers: a browser cannot send a key with every click, so it holds a cookie instead.

Rules: the cookie is random and carries no data; only its digest is stored. It stands for a key, which must still be
valid at each use. Sign-ins are limited in number and in time, and a restart forgets them. Time and randomness are
injected.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from ostler.gateway.config.keys import Caller, KeySource, digest

HOURS = 12 * 3600.0
MOST = 256
COOKIE = "ostler_guest"


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """One sign-in: the digest of its key, and when it expires."""

    key: bytes
    until: float


@dataclass
class BrowserSessions:
    """The sign-ins of all browsers."""

    keys: KeySource
    clock: Callable[[], float]
    token: Callable[[], str]
    _sessions: OrderedDict[bytes, BrowserSession] = field(default_factory=OrderedDict)

    def admit(self, key: str) -> str | None:
        """Sign in with a key: a new cookie, or None if the key is not valid."""
        known = digest(key)
        if self.keys.holder(known) is None:
            return None
        cookie = self.token()
        self._sessions[digest(cookie)] = BrowserSession(known, self.clock() + HOURS)
        if len(self._sessions) > MOST:
            self._sessions.popitem(last=False)
        return cookie

    def caller(self, cookie: str) -> Caller | None:
        """The caller behind a cookie, while the cookie and its key are valid; else None."""
        session = self._sessions.get(digest(cookie))
        if session is None or session.until <= self.clock():
            return None
        return self.keys.holder(session.key)

    def leave(self, cookie: str) -> None:
        """Sign out, which invalidates the cookie."""
        self._sessions.pop(digest(cookie), None)


def cookie_of(headers: dict[bytes, bytes]) -> str | None:
    """The value of our cookie in a request's headers, if any."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value:
            return value
    return None
