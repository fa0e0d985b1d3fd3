"""A real gateway on a real socket, in the test's own loop, with demo agents behind it.

`serving` gives a `Served`: an HTTP client on the loopback address, the database, and what the agents recorded.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from ostler.gateway.config.data_folder import DATABASE
from ostler.gateway.config.load import load
from ostler.gateway.memory.provider import MakeProvider
from ostler.gateway.model.observers import ConversationObserver
from ostler.gateway.ops.gauges.gauges import MakeGauges, open_gauges
from ostler.gateway.server.app import NO_MEMORY, Gateway, open_gateway
from ostler.gateway.server.listener import address_of, listen_tcp
from ostler.gateway.server.serving import Server
from ostler.wire.json import JsonObject
from tests.support.acp_oracle import check_sent
from tests.support.database import look
from tests.support.plain_http import NO_AUTHORITIES

SESSION = "x-ostler-session-id"


SAID = b'{"event": "out"'
"""How the lines begin that are nine of ten: what agents said, which is asked of them and not of their record."""


@dataclass
class Heard:
    """What the agents recorded, but for what they said. A line is read once, however often somebody looks: the looks
    are made on the gateway's own loop, and a stream is a hundred thousand lines."""

    record: Path
    lines: list[dict[str, Any]] = field(default_factory=list)
    place: int = 0

    def look(self) -> list[dict[str, Any]]:
        """Up to now."""
        if self.record.exists():
            with self.record.open("rb") as file:
                file.seek(self.place)
                new, newline, _ = file.read().rpartition(b"\n")
            self.place += len(new) + len(newline)
            self.lines += [json.loads(line) for line in new.splitlines() if not line.startswith(SAID)]
        return self.lines


@dataclass
class Served:
    """A running gateway as a client and an operator see it."""

    gateway: Gateway
    http: httpx.AsyncClient
    folder: Path
    record: Path
    base: str

    def __post_init__(self) -> None:
        self._heard = Heard(self.record)

    def frames(self, method: str | None = None) -> list[dict[str, Any]]:
        """What the agents were sent, in order; of one method only."""
        frames = [line["frame"] for line in self._heard.look() if line["event"] == "in"]
        wanted = [frame for frame in frames if "method" in frame]
        return [frame for frame in wanted if method in (None, frame["method"])]

    def prompts(self) -> list[str]:
        """The text of every prompt, its blocks joined."""
        return [
            "\n".join(block.get("text", "") for block in frame["params"]["prompt"])
            for frame in self.frames("session/prompt")
        ]

    def seats(self) -> int:
        """Agent sessions that were ever prompted; the pool opens others ahead."""
        return len({frame["params"]["sessionId"] for frame in self.frames("session/prompt")})

    def starts(self) -> int:
        """Agent processes that came up."""
        return sum(1 for line in self._heard.look() if line["event"] == "start")

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """A read-only look at the database."""
        return look(self.folder / DATABASE, query, *values)

    async def ask(self, text: str | list[Any], **fields: Any) -> httpx.Response:
        """POST /v1/responses"""
        return await self.http.post("/v1/responses", json={"model": "demo", "input": text, **fields})

    async def say(self, text: str, **fields: Any) -> str:
        """The text of an answer that must be good."""
        answer = await self.ask(text, **fields)
        assert answer.status_code == 200, answer.text
        return text_of(answer.json())

    async def stream(self, text: str | list[Any], **fields: Any) -> list[dict[str, Any]]:
        """Every event of a streamed answer."""
        body = {"model": "demo", "input": text, "stream": True, **fields}
        async with self.http.stream("POST", "/v1/responses", json=body) as answer:
            return events_of((await answer.aread()).decode())


def events_of(text: str) -> list[dict[str, Any]]:
    """The data of every server-sent event."""
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ") and line != "data: [DONE]"]


def text_of(response: dict[str, Any]) -> str:
    """What the assistant said."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "\n".join(part["text"] for item in messages for part in item["content"])


@asynccontextmanager
async def serving(
    folder: Path,
    *flags: str,
    environ: Mapping[str, str] | None = None,
    wall: Callable[[], float] = time.time,
    observer: ConversationObserver | None = None,
    memory: Mapping[str, MakeProvider] = NO_MEMORY,
    gauges: MakeGauges = open_gauges,
    **settings: Any,
) -> AsyncIterator[Served]:
    """A gateway with these settings (`section__key`), its demo agents with these flags. What it told them is held
    against the official schema at the end."""
    record = folder.parent / f"{folder.name}-record.jsonl"
    demo = {"demo": {"args": ["--record", str(record), *flags]}}
    made = gateway_at(folder, demo, environ or {}, settings, wall=wall, observer=observer, memory=memory, gauges=gauges)
    async with made as (gateway, base), client(base) as http:
        served = Served(gateway, http, folder, record, base)
        yield served
    check_sent(served.frames())


def client(base: str) -> httpx.AsyncClient:
    """A patient one, which knows no proxy."""
    return httpx.AsyncClient(base_url=base, timeout=300, trust_env=False, verify=NO_AUTHORITIES)


@asynccontextmanager
async def visiting(served: Served) -> AsyncIterator[Served]:
    """The same gateway with another client."""
    async with client(served.base) as http:
        yield replace(served, http=http)


@asynccontextmanager
async def gateway_at(
    folder: Path,
    providers: Mapping[str, JsonObject],
    environ: Mapping[str, str],
    settings: Mapping[str, Any],
    *,
    wall: Callable[[], float] = time.time,
    observer: ConversationObserver | None = None,
    memory: Mapping[str, MakeProvider] = NO_MEMORY,
    gauges: MakeGauges = open_gauges,
) -> AsyncIterator[tuple[Gateway, str]]:
    """A whole gateway and its address. It remembers only where it is told to, or given something that does."""
    remembers = settings.get("memory__enabled", bool(memory))
    settings = {
        "memory__enabled": remembers,
        "memory__openai_api": remembers,
        **({"memory__providers": [*memory]} if memory else {}),
        **settings,
    }
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), **environ}
    sections = [(f"providers.{name}", section) for name, section in providers.items()]
    overrides = [*sections, *((key.replace("__", "."), value) for key, value in settings.items())]
    loaded = load(given, data_dir=str(folder), overrides=overrides)
    listener = listen_tcp("127.0.0.1", 0, patience=loaded.settings.gateway.client_patience)
    base = address_of(listener)
    with listener:  # also where the gateway does not start
        async with open_gateway(loaded, given, wall=wall, observer=observer, memory=memory, gauges=gauges) as gateway:
            server = Server.of(gateway.app)
            server.config.timeout_graceful_shutdown = 1
            running = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield gateway, base
            finally:
                server.should_exit = True
                await running
