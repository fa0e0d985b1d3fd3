"""MCP over HTTP: whatever an agent posts to the tools it was given a token for, the answer is one of the protocol's."""

import asyncio
import json
from random import Random
from typing import Any

from ostler.bridge.channels.http_app import HttpApp, HttpSettings
from tests.support.http_tools import HEADERS, INITIALIZE
from tools.fuzz.target import Target
from tools.fuzz.targets.pipe import bound

PATIENCE = 20.0
STAYS = 0.01
"""Seconds after which the client of a stream that does not end by itself leaves it."""
SESSION = "mcp-session-id"
STATELESS = {"mcp-protocol-version": "2026-07-28"}
PING = b'{"jsonrpc":"2.0","id":"last","method":"ping"}'


class Posts:
    """One binding, in a session of its own most of the time, and without one."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._runner = asyncio.Runner()
        self._app = HttpApp(HttpSettings(enabled=True, stream_after=STAYS / 2, heartbeat=STAYS))
        self._binding = bound()
        self._bearer = {"host": "localhost", "authorization": f"Bearer {self._app.admit(self._binding)}"}
        self._session = self._begin()

    def take(self, frame: bytes) -> None:
        given = self._rng.choice(({SESSION: self._session}, {SESSION: self._session}, STATELESS, {}))
        status, said = self._post(frame, given)
        if status == 404 and SESSION in given:
            # The sixteen sessions that a binding may have were begun by others since.
            self._session = self._begin()
        elif status >= 500:
            raise AssertionError(f"{status} to a body of a client: {said[:500]!r}")
        elif status >= 400 and not json.loads(said)["error"]["message"]:
            raise AssertionError(f"refused without a word: {said[:500]!r}")

    def end(self) -> None:
        """It answers still, and after the end of its binding nobody."""
        try:
            self._session = self._begin()
            status, said = self._post(PING, {SESSION: self._session})
            if (status, json.loads(said)["id"]) != (200, "last"):
                raise AssertionError(f"it does not answer any more: {status} {said[:500]!r}")
            self._binding.revoke()
            if self._post(PING, {SESSION: self._session})[0] != 401 or self._app.admitted:
                raise AssertionError("a token outlived its binding")
        finally:
            self._runner.close()

    def _begin(self) -> str:
        headers: dict[str, str] = {}
        self._post(json.dumps(INITIALIZE).encode(), {}, headers)
        return headers[SESSION]

    def _post(self, body: bytes, given: dict[str, str], told: dict[str, str] | None = None) -> tuple[int, bytes]:
        return self._runner.run(
            self._exchange(body, {**HEADERS, **self._bearer, **given}, {} if told is None else told)
        )

    async def _exchange(self, body: bytes, given: dict[str, str], told: dict[str, str]) -> tuple[int, bytes]:
        """As a server would drive it."""
        incoming = [{"type": "http.request", "body": body}]
        status, parts = 0, list[bytes]()

        async def receive() -> dict[str, Any]:
            if not incoming:
                await asyncio.sleep(STAYS)
            return incoming.pop() if incoming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                told.update((name.decode(), value.decode()) for name, value in message["headers"])
            else:
                parts.append(message.get("body", b""))

        raw = [(name.encode(), value.encode()) for name, value in given.items()]
        async with asyncio.timeout(PATIENCE):
            await self._app({"type": "http", "method": "POST", "path": "/mcp", "headers": raw}, receive, send)
        return status, b"".join(parts)


TARGET = Target("tools", "mcp", Posts, heavy=True)
