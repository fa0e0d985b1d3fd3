"""Which page sends a request, as far as a browser tells. Pure.

Rules:
- Browsers say `Sec-Fetch-Site` on their own account, and no page can set it: where it is said, it decides. It also
  tells the truth behind a proxy that ends TLS and does not say so.
- Without it (older browsers, plain HTTP to a name that is no loopback one) `Origin` must be where the request was sent
  to: the same scheme, host and port. Two ports of one host are two origins.
- A request with neither header is no browser's.
"""

from starlette.types import Scope

OriginHeaders = dict[bytes, bytes]
PORTS = {"http": "80", "https": "443"}
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing, so that a page may cause them by a mere link."""


def is_from_own_page(scope: Scope, headers: OriginHeaders) -> bool:
    """Whether a page that this server served sends the request."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site == b"same-origin"
    origin = headers.get(b"origin", b"").decode("latin-1")
    host = headers.get(b"host", b"").decode("latin-1")
    return bool(host) and spelled(origin) == spelled(f"{scope.get('scheme', 'http')}://{host}")


def is_from_foreign_page(scope: Scope, headers: OriginHeaders) -> bool:
    """Whether a browser sends the request for a page of somebody else's, or may do so.

    A person who follows a link or types an address sends no `Origin`: for methods that change nothing that is no page.
    """
    site = headers.get(b"sec-fetch-site", b"none")
    if b"origin" not in headers and (site == b"none" or scope["method"] in SAFE):
        return False
    return not is_from_own_page(scope, headers)


def is_from_browser(headers: OriginHeaders) -> bool:
    """Whether a browser sends the request, as far as it says so."""
    return b"origin" in headers or b"sec-fetch-site" in headers


def spelled(origin: str) -> str:
    """One spelling for one origin: with its port, in small letters."""
    scheme, _, host = origin.lower().partition("://")
    bare = host.rpartition("]")[2] if host.startswith("[") else host
    return f"{scheme}://{host}" if ":" in bare else f"{scheme}://{host}:{PORTS.get(scheme, '')}"
