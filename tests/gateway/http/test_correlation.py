"""What no room of the gateway has answered is answered at its outer wall: an envelope, with the request's name."""

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.gateway.http.correlation import Correlated


def client(app: ASGIApp) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(Correlated(app, lambda: "req_1"), raise_app_exceptions=True)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise ZeroDivisionError("a secret detail")


async def broken_later(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise ZeroDivisionError


async def test_a_fault_that_nobody_answered_is_an_envelope(caplog: pytest.LogCaptureFixture) -> None:
    async with client(broken) as http:
        answer = await http.get("/v1/models")
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "req_1")
    assert answer.json()["error"]["code"] == "internal_error"
    assert "secret" not in answer.text
    assert "ZeroDivisionError" in caplog.text


async def test_a_fault_in_the_middle_of_an_answer_is_the_servers_to_end() -> None:
    async with client(broken_later) as http:
        with pytest.raises(ZeroDivisionError):
            await http.get("/v1/models")
