"""The channels to a binding besides the socket, as interfaces. Each is opened at the first request for it.

Rules: no secret is created for a channel that a session does not use. What a channel gives ends with the binding; the
channel itself belongs to the component that started it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

from ostler.wire.json import JsonObject
from ostler.wire.rpc import RpcFault, RpcId

B_contra = TypeVar("B_contra", contravariant=True)

ChannelListener: TypeAlias = Callable[[str, JsonObject], None]


@dataclass(frozen=True, slots=True)
class HttpServerEntry:
    """The MCP server entry for an agent that supports HTTP tool servers."""

    name: str
    url: str
    headers: Mapping[str, str] = field(repr=False)


class HttpChannelPort(Protocol[B_contra]):
    """The streamable HTTP channel (`channels/http.py`), as a binding uses it."""

    @property
    def running(self) -> bool: ...

    def open(self, binding: B_contra) -> HttpServerEntry: ...


class Pipe(Protocol[B_contra]):
    """MCP over the pipe of one agent process (`channels/acp.py`)."""

    def declare(self, binding: B_contra) -> JsonObject: ...

    def request(
        self, outer: RpcId, method: str, params: JsonObject, answer: Callable[[JsonObject | RpcFault], None]
    ) -> None: ...

    def notice(self, method: str, params: JsonObject) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Channels(Generic[B_contra]):
    """The channels besides the socket; `http` None: no HTTP channel runs."""

    http: HttpChannelPort[B_contra] | None
    pipe: Callable[[ChannelListener], Pipe[B_contra]]
