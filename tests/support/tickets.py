"""Tool tickets without a bridge: attached when the test says so."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ostler.wire.json import JsonObject

ECHO: JsonObject = {"name": "echo"}


@dataclass(frozen=True)
class PlainRelay:
    name: str
    argv: Sequence[str]
    env: Mapping[str, str]


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
    calls: list[tuple[str, JsonObject]] = field(default_factory=list)
    revoked: bool = False

    @property
    def relay(self) -> PlainRelay:
        return PlainRelay("gw", ("/bin/relay", "relay"), {"TOKEN": self.token})

    def owned_by(self, owner: Any) -> None:
        self.owners.append(owner)

    async def attached(self) -> None:
        await self.ready.wait()

    async def call(self, name: str, arguments: JsonObject, *, call_id: str) -> Answer:
        self.calls.append((name, arguments))
        return Answer([{"type": "text", "text": f"{self.token}:{call_id}"}])

    def on_definitions(self, listener: Callable[[], None]) -> None:
        """Its definitions never change."""

    def revoke(self) -> None:
        self.revoked = True
