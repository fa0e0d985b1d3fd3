"""Who has signed in on a page: a browser cannot send a key with every click, so it holds a cookie instead.

Rules: the cookie is random and tells nothing; only its digest is kept. It stands for a key that must still be valid
when it is used. Bounded in number and in time; a restart forgets all. A value machine; time and randomness are handed
in.
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
    """The key behind a cookie, by its digest."""

    key: bytes
    until: float


@dataclass
class BrowserSessions:
    """Those who are signed in."""

    ring: KeySource
    clock: Callable[[], float]
    token: Callable[[], str]
    _guests: OrderedDict[bytes, BrowserSession] = field(default_factory=OrderedDict)

    def admit(self, key: str) -> str | None:
        """A new cookie for a valid key."""
        known = digest(key)
        if self.ring.holder(known) is None:
            return None
        cookie = self.token()
        self._guests[digest(cookie)] = BrowserSession(known, self.clock() + HOURS)
        if len(self._guests) > MOST:
            self._guests.popitem(last=False)
        return cookie

    def caller(self, cookie: str) -> Caller | None:
        """Whose cookie this is, while it and its key are good."""
        guest = self._guests.get(digest(cookie))
        if guest is None or guest.until <= self.clock():
            return None
        return self.ring.holder(guest.key)

    def leave(self, cookie: str) -> None:
        """Signed out."""
        self._guests.pop(digest(cookie), None)


def cookie_of(headers: dict[bytes, bytes]) -> str | None:
    """Our cookie among those of a request."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value:
            return value
    return None
