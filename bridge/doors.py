"""The ways to a binding besides the socket, as a binding knows them. Each is opened when somebody asks for it.

Rules: no secret is minted for a channel that a session does not use. What a door gives ends with the binding; the
door itself belongs to whoever started it.
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
    """What an agent that takes HTTP tool servers is told."""

    name: str
    url: str
    headers: Mapping[str, str] = field(repr=False)


class HttpChannelPort(Protocol[B_contra]):
    """Streamable HTTP (`channels/http.py`)."""

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
    """All of them."""

    http: HttpChannelPort[B_contra] | None
    pipe: Callable[[ChannelListener], Pipe[B_contra]]
