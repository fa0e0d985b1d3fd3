"""The HTTP tool channel in a test: a running one, and clients that are not careful."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ostler.bridge.channels.http import HttpChannel
from ostler.bridge.channels.http_app import HttpSettings
from ostler.bridge.doors import HttpServerEntry
from tests.support.plain_http import NO_AUTHORITIES

if TYPE_CHECKING:
    import httpx2
    from mcp import Client

HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}


@asynccontextmanager
async def running_channel(**settings: Any) -> AsyncIterator[HttpChannel]:
    channel = HttpChannel(HttpSettings(enabled=True, **settings))
    await channel.start()
    try:
        yield channel
    finally:
        await channel.stop()


@asynccontextmanager
async def official(entry: HttpServerEntry, **options: Any) -> AsyncIterator[Client]:
    """The official client, as an agent written with it would be one."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=dict(entry.headers), timeout=300, verify=NO_AUTHORITIES) as http,
        Client(streamable_http_client(entry.url, http_client=http), **options) as client,
    ):
        yield client


@asynccontextmanager
async def bare(entry: HttpServerEntry, headers: Mapping[str, str] | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    import httpx2

    async with httpx2.AsyncClient(
        headers={**HEADERS, **entry.headers, **(headers or {})}, timeout=300, verify=NO_AUTHORITIES
    ) as http:
        yield http
