"""What the supervisor needs of a connection to a tool server, in words that know no library."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.errors import BridgeError
from ostler.bridge.upstreams.settings import UpstreamSettings
from ostler.wire.json import JsonObject


class RemoteLost(Exception):
    """The connection ended under a call."""


class RemoteRefused(Exception):
    """The server answered with a protocol error: its own words."""


class Remote(Protocol):
    """A tool server that has answered its handshake."""

    async def tools(self) -> Sequence[JsonObject]: ...

    async def call(self, name: str, call: ToolCall) -> CallResult:
        """Raises `RemoteLost` and `RemoteRefused`."""
        ...

    async def gone(self) -> str:
        """Returns when there is nobody there any more, with what is known about why."""
        ...


Connect: TypeAlias = Callable[[UpstreamSettings, Callable[[], None]], AbstractAsyncContextManager[Remote]]
"""The second argument is called when the server says that its tools changed."""


PACKAGE = "mcp>=2.3,<3"
"""As the extra `mcp` has it."""


class ExtraMissing(BridgeError):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"[tools.mcp.{name}] needs a library that is not installed: pip install '{PACKAGE}'")


def default_connect(name: str) -> Connect:
    """The official library, when it is installed; asked for only when a server is configured."""
    try:
        from ostler.bridge.upstreams.client import connect  # noqa: PLC0415 - an extra, and half a second of import
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("mcp", "mcp_types", "anyio", "httpx2"):
            raise ExtraMissing(name) from error
        raise
    return connect
