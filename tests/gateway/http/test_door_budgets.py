"""What the door counts against which budget, without a socket."""

import pytest
from starlette.responses import Response

from ostler.gateway.config.keys import Caller, KeyRing
from ostler.gateway.http.auth_middleware import READS_PER_MINUTE, AuthMiddleware

HEADERS = [(b"host", b"localhost:1")]


def door(**limits: int) -> AuthMiddleware:
    keys = KeyRing(anyone=Caller(**limits))
    return AuthMiddleware(
        Response("served"),
        keys=keys,
        allowed_hosts=(),
        cors_origins=(),
        body_limit=1000,
        body_timeout=1.0,
        clock=lambda: 0.0,
    )


async def status(served: AuthMiddleware, method: str, path: str) -> int:
    heard: list[int] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        if message["type"] == "http.response.start":
            heard.append(message["status"])

    await served({"type": "http", "method": method, "path": path, "headers": HEADERS}, receive, send)
    return heard[0]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("HEAD", "/v1/models"),
        ("GET", "/v1/conversations/x/cancel"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
    ],
)
async def test_n35_what_asks_no_agent_has_a_budget_too(method: str, path: str) -> None:
    served = door(per_minute=1)
    answers = [await status(served, method, path) for _ in range(READS_PER_MINUTE + 1)]
    assert answers == [200] * READS_PER_MINUTE + [429]
    assert await status(served, "POST", "/v1/responses") == 200
    assert [await status(served, "GET", open_path) for open_path in ("/healthz", "/readyz", "/metrics")] == [200] * 3


@pytest.mark.parametrize(
    "path", ["/v1/conversations/x/cancel", "/v1/sessions/x/cancel", "/v1/responses/a/b/cancel", "/cancel"]
)
async def test_n35_a_name_that_ends_like_a_cancel_is_metered_as_what_it_is(path: str) -> None:
    served = door(per_minute=2)
    assert [await status(served, "POST", path) for _ in range(3)] == [200, 200, 429]


async def test_n35_a_cancel_is_let_in_where_no_turn_is() -> None:
    full = door(per_minute=1)
    assert [await status(full, "POST", "/v1/responses") for _ in range(2)] == [200, 429]
    assert await status(full, "POST", "/v1/responses/resp_1/cancel") == 200
