"""Every route of the gateway that takes a body, on a whole gateway with real agents: no body is the gateway's fault.

A frame is an object with one key, the route, and the body as its value; one that is no such object any more is a body
as it stands, for a route that the seed names.
"""

import asyncio
import json
import re
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import httpx
from starlette.types import ASGIApp

from ostler.gateway.config.data_folder import DATABASE
from ostler.gateway.config.load import load
from ostler.gateway.server.app import Gateway, open_gateway
from tests.support.database import look
from tools.fuzz.target import Target

PATIENCE = 20.0
"""Seconds for one answer; every deadline of this gateway is far below."""
ROUTE = re.compile(rb'"(/[^" \\]*)')
ADMIN = "/admin"
SETTINGS = (
    ("gateway.client_tool_deadline", 0.2), ("gateway.turn_inactivity", 5.0), ("gateway.turn_limit", 5.0),
    ("gateway.mirrors", False), ("gateway.responses_max", 200), ("pool.claim_deadline", 5.0),
    ("auth.per_minute", 1_000_000), ("memory.enabled", False), ("tools.own", ["*"]), ("metrics.enabled", False),
)  # fmt: skip


class Door:
    """One gateway for the whole campaign, on a loop of its own."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._gateway = self._runner.run(self._open())

    async def _open(self) -> Gateway:
        folder = Path(self._folder.name)
        roots = ("pool.roots", [str(folder)])
        given = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
        loaded = load(given, data_dir=str(folder), overrides=[*SETTINGS, roots])
        return await self._stack.enter_async_context(open_gateway(loaded, given))

    def take(self, frame: bytes) -> None:
        route, body = parts(frame)
        app = self._gateway.admin if route.startswith(ADMIN) else self._gateway.app
        answer = self._runner.run(post(app, route, body))
        if "pause" in route:
            # Whatever was paused: everybody behind it would wait for the deadline of a claim.
            for paused in (body, b"{}"):
                self._runner.run(post(self._gateway.admin, "/admin/pool/resume", paused))
        if answer.status_code == 500:
            raise AssertionError(f"{route} fails: {answer.text[:500]}")
        if answer.status_code >= 400 and answer.status_code not in (404, 405):
            told = answer.json()
            if not told["error"]["message"]:
                raise AssertionError(f"{route} refuses without a word: {answer.text[:500]}")

    def end(self) -> None:
        """It still answers, it ends in good order, and the file is sound."""
        try:
            whole = self._runner.run(post(self._gateway.app, "/v1/responses", b'{"input": "the last one"}'))
            if whole.status_code != 200 or "echo: the last one" not in whole.text:
                raise AssertionError(f"it does not answer any more: {whole.text[:500]}")
        finally:
            self._runner.run(self._stack.aclose())
            self._runner.close()
            sound = look(Path(self._folder.name) / DATABASE, "pragma integrity_check")
            self._folder.cleanup()
        if sound != [("ok",)]:
            raise AssertionError(f"the database is damaged: {sound}")


def parts(frame: bytes) -> tuple[str, bytes]:
    """The route and the body."""
    try:
        document: Any = json.loads(frame)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and document:
        route, body = next(iter(document.items()))
        if route.startswith("/") and route.isprintable():
            return route, json.dumps(body).encode("utf-8", "surrogatepass")
    found = ROUTE.search(frame)
    return ("/v1/responses" if found is None else readable(found[1])), frame[found.end() + 2 : -1] if found else frame


def readable(route: bytes) -> str:
    """A path that a client can send."""
    return "".join(char for char in route.decode("ascii", "ignore") if char.isprintable()) or "/"


async def post(app: ASGIApp, route: str, body: bytes) -> httpx.Response:
    """The whole answer, or a hang that is told."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        async with asyncio.timeout(PATIENCE):
            return await http.post(httpx.URL(scheme="http", host="localhost", path=quote(route)), content=body,
                                   headers={"content-type": "application/json"})  # fmt: skip


TARGET = Target("http", "http", Door, heavy=True)
