"""The interface between the supervisor and a connection to a tool server, independent of any library."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.errors import BridgeError
from ostler.bridge.upstreams.settings import UpstreamSettings
from ostler.wire.json import JsonObject


class RemoteLost(Exception):
    """The connection ended during a call."""


class RemoteRefused(Exception):
    """The server answered with a protocol error; the text is the server's."""


class Remote(Protocol):
    """A tool server that has answered its handshake."""

    async def tools(self) -> Sequence[JsonObject]: ...

    async def call(self, name: str, call: ToolCall) -> CallResult:
        """Call a tool by the server's own name. Raises `RemoteLost` and `RemoteRefused`."""
        ...

    async def gone(self) -> str:
        """Wait until the server is gone; return the reason as far as it is known."""
        ...


Connect: TypeAlias = Callable[[UpstreamSettings, Callable[[], None]], AbstractAsyncContextManager[Remote]]
"""Opens a connection; the second argument is called when the server reports that its tools changed."""


PACKAGE = "mcp>=2.3,<3"
"""The requirement of the extra `mcp`."""


class ExtraMissing(BridgeError):
    """A tool server is configured, but the extra `mcp` is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"[tools.mcp.{name}] needs a library that is not installed: pip install '{PACKAGE}'")


def default_connect(name: str) -> Connect:
    """The `connect` of the official library. Raises `ExtraMissing`; called only if a server is configured."""
    try:
        from ostler.bridge.upstreams.client import connect  # noqa: PLC0415 - an extra, and half a second of import
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("mcp", "mcp_types", "anyio", "httpx2"):
            raise ExtraMissing(name) from error
        raise
    return connect
