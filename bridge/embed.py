"""A bridge in one call, for programs that embed it: pass it to the pool as its `tool_port`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings


@asynccontextmanager
async def open_bridge(settings: BridgeSettings | None = None) -> AsyncIterator[Bridge]:
    """A started bridge on the running loop, stopped at the end. Raises `SocketRefused` and `SocketInUse`."""
    bridge = Bridge(settings or BridgeSettings())
    await bridge.start()
    try:
        yield bridge
    finally:
        await bridge.stop()
