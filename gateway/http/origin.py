"""Which page sends a request, as far as the browser states it. Pure.

Rules:
- Browsers set `Sec-Fetch-Site` themselves, and no page can change it: if it is there, it decides. It is also correct
  behind a proxy that ends TLS without saying so.
- Without it (older browsers, plain HTTP to a name that is not loopback), `Origin` must equal the address that the
  request was sent to: scheme, host and port. Two ports of one host are two origins.
- A request with neither header does not come from a browser.
"""

from starlette.types import Scope

OriginHeaders = dict[bytes, bytes]
PORTS = {"http": "80", "https": "443"}
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing, so that a page may cause them by a link."""


def is_from_own_page(scope: Scope, headers: OriginHeaders) -> bool:
    """Whether a page served by this server sends the request."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site == b"same-origin"
    origin = headers.get(b"origin", b"").decode("latin-1")
    host = headers.get(b"host", b"").decode("latin-1")
    return bool(host) and spelled(origin) == spelled(f"{scope.get('scheme', 'http')}://{host}")


def is_from_foreign_page(scope: Scope, headers: OriginHeaders) -> bool:
    """Whether a page of another origin sends the request, or may do so.

    A browser sends no `Origin` if a person follows a link or types an address. For methods that change nothing, such a
    request does not count as a page's.
    """
    site = headers.get(b"sec-fetch-site", b"none")
    if b"origin" not in headers and (site == b"none" or scope["method"] in SAFE):
        return False
    return not is_from_own_page(scope, headers)


def is_from_browser(headers: OriginHeaders) -> bool:
    """Whether a browser sends the request, as far as it says so."""
    return b"origin" in headers or b"sec-fetch-site" in headers


def spelled(origin: str) -> str:
    """Return the one normal form of an origin: in lower case and with its port."""
    scheme, _, host = origin.lower().partition("://")
    bare = host.rpartition("]")[2] if host.startswith("[") else host
    return f"{scheme}://{host}" if ":" in bare else f"{scheme}://{host}:{PORTS.get(scheme, '')}"
