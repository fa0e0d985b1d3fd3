"""Tool tickets without a bridge: attached when the test says so."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ostler.pool.ports import McpAnswer
from ostler.wire.json import JsonObject
from ostler.wire.rpc import RpcId

ECHO: JsonObject = {"name": "echo"}


@dataclass(frozen=True)
class PlainRelay:
    name: str
    argv: Sequence[str]
    env: Mapping[str, str]


@dataclass(frozen=True)
class PlainEndpoint:
    name: str
    url: str
    headers: Mapping[str, str]


@dataclass
class PlainPipe:
    """Says what it was handed."""

    heard: list[tuple[str, JsonObject]] = field(default_factory=list)

    def declare(self, ticket: Any) -> JsonObject:
        return {"type": "acp", "name": "gw", "serverId": ticket.token}

    def request(self, outer: RpcId, method: str, params: JsonObject, answer: McpAnswer) -> None:
        self.heard.append((method, params))
        answer({})

    def notice(self, method: str, params: JsonObject) -> None:
        self.heard.append((method, params))

    def close(self) -> None:
        """There is nothing to stop."""


@dataclass
class Answer:
    content: Sequence[JsonObject]
    is_error: bool = False


@dataclass
class PlainTicket:
    """Remembers what it was asked."""

    token: str
    definitions: Sequence[JsonObject] = (ECHO,)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    owners: list[Any] = field(default_factory=list)
    witnesses: list[str] = field(default_factory=list)
    calls: list[tuple[str, JsonObject]] = field(default_factory=list)
    revoked: bool = False

    @property
    def relay(self) -> PlainRelay:
        return PlainRelay("gw", ("/bin/relay", "relay"), {"TOKEN": self.token})

    def http(self) -> PlainEndpoint:
        return PlainEndpoint("gw", "http://127.0.0.1:1/mcp", {"Authorization": f"Bearer {self.token}"})

    def pipe(self, tell: Callable[[str, JsonObject], None]) -> PlainPipe:
        return PlainPipe()

    def owned_by(self, owner: Any) -> None:
        self.owners.append(owner)

    def witnessed_by(self, agent_session: str) -> None:
        self.witnesses.append(agent_session)

    async def attached(self) -> None:
        await self.ready.wait()

    async def call(self, name: str, arguments: JsonObject, *, call_id: str) -> Answer:
        self.calls.append((name, arguments))
        return Answer([{"type": "text", "text": f"{self.token}:{call_id}"}])

    def on_definitions(self, listener: Callable[[], None]) -> None:
        """Its definitions never change."""

    def revoke(self) -> None:
        self.revoked = True
