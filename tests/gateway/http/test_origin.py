"""Which requests a browser sends for a page of somebody else's."""

import pytest

from ostler.gateway.http.origin import is_from_foreign_page, is_from_own_page

HOST = {b"host": b"localhost:8787"}
OWN = b"http://localhost:8787"
FOREIGN = (
    b"http://localhost:3000",
    b"https://localhost:8787",
    b"http://127.0.0.1:8787",
    b"http://localhost",
    b"http://localhost:87870",
    b"http://evil.example",
    b"tauri://localhost",
    b"file://",
    b"null",
    b"",
)


def scope(method: str = "POST", scheme: str = "http") -> dict[str, object]:
    return {"type": "http", "method": method, "scheme": scheme}


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_n33_a_page_of_another_scheme_host_or_port_is_foreign(method: str, origin: bytes) -> None:
    assert is_from_foreign_page(scope(method), {**HOST, b"origin": origin})
    assert not is_from_own_page(scope(method), {**HOST, b"origin": origin})


@pytest.mark.parametrize(
    ("host", "origin", "scheme"),
    [
        (b"localhost:8787", OWN, "http"),
        (b"LocalHost:8787", OWN, "http"),
        (b"localhost", b"http://localhost:80", "http"),
        (b"gateway.example:443", b"https://gateway.example", "https"),
        (b"[::1]:8787", b"http://[::1]:8787", "http"),
        (b"[::1]", b"http://[::1]", "http"),
    ],
)
def test_n33_a_page_of_the_same_scheme_host_and_port_is_our_own(host: bytes, origin: bytes, scheme: str) -> None:
    headers = {b"host": host, b"origin": origin}
    assert is_from_own_page(scope(scheme=scheme), headers)
    assert not is_from_foreign_page(scope(scheme=scheme), headers)


@pytest.mark.parametrize(
    ("method", "site", "foreign"),
    [
        ("POST", b"same-origin", False),
        ("POST", b"same-site", True),
        ("POST", b"cross-site", True),
        ("POST", b"none", False),
        ("GET", b"cross-site", False),  # somebody follows a link to us
        ("GET", b"same-site", False),
    ],
)
def test_n33_what_a_browser_says_of_a_request_without_origin_decides(method: str, site: bytes, foreign: bool) -> None:
    assert is_from_foreign_page(scope(method), {**HOST, b"sec-fetch-site": site}) is foreign


def test_n33_a_browser_behind_a_proxy_that_ends_tls_tells_whose_page_it_is() -> None:
    headers = {b"host": b"gateway.example", b"origin": b"https://gateway.example"}
    assert is_from_own_page(scope(), {**headers, b"sec-fetch-site": b"same-origin"})
    assert is_from_foreign_page(scope(), {**headers, b"sec-fetch-site": b"cross-site"})


def test_n33_a_program_is_no_page() -> None:
    assert not is_from_foreign_page(scope(), HOST)
    assert not is_from_own_page(scope(), {b"origin": b"http://"})
