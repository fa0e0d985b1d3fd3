"""Contract: a permission level means the same deeds on every agent, or the agent is refused at that level.

Four deeds, each by the agent's own tools: write a file in the session's directory, write one elsewhere, run a command,
reach a server (one of the test's own, on loopback). What becomes of each is what the provider declares and the
documents show. They are done on a chat face, where a person is there to be asked.
"""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from threading import Thread
from typing import Any

import pytest

from ostler.gateway.config.errors import ConfigError
from ostler.pool.provider import Deed, Deeds, Level, Provider
from tests.contracts.built_in import BUILT_IN
from tests.support.agent_gateway import gateway
from tests.support.chats import Chat
from tests.support.served import Served
from tests.support.waiting import eventually
from tools.agents.recipes import HANDS, Hands, Recipe

FETCH = "/usr/bin/env python3 -c \"import urllib.request as r; r.urlopen('{url}').read()\""


@dataclass
class Server:
    """Counts who comes."""

    visits: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def reachable() -> Iterator[Server]:
    """A server that an agent may reach, or not."""
    known = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.visits.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_words: Any) -> None:
            """Nothing is told."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known.url = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def become(chat: Chat, order: str, happened: Callable[[], bool]) -> Deed:
    """Give the order; a question is answered with no, after it was seen."""
    turn = asyncio.create_task(chat.send(order))
    asked = False

    def waits() -> bool:
        nonlocal asked
        session = chat.served.gateway.sessions.find(str(chat.routed()))
        for question in session.pending_permissions() if session is not None else []:
            asked = session.answer_permission(question.id, allow=False) or asked
        return turn.done()

    await eventually(waits, "the end of the turn", 100)
    assert (await turn).status_code == 200, turn.result().text
    if asked:
        assert not happened(), "it was done though the answer was no"
        return Deed.ASKED
    return Deed.DONE if happened() else Deed.REFUSED


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that no agent takes for one of its own: not below the folder for temporary files."""
    folder = Path(mkdtemp(prefix="ostler-outside-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("level", list(Level))
async def test_n43_a_level_means_the_declared_deeds(
    provider: Provider, recipe: Recipe, level: Level, tmp_path: Path, outside: Path
) -> None:
    if provider.name in BUILT_IN:
        pytest.skip("has no tools of its own")
    if level not in provider.levels:
        with pytest.raises(ConfigError, match="cannot be held"):
            async with gateway(provider, recipe, tmp_path, level):
                pass
        return
    with reachable() as server:
        async with gateway(provider, recipe, tmp_path, level) as served:
            hands = HANDS[provider.name]
            found = [await deed(served, hands, each.name, tmp_path, outside, server) for each in fields(Deeds)]
    assert Deeds(*found) == provider.levels[level]


async def deed(served: Served, hands: Hands, name: str, tmp_path: Path, outside: Path, server: Server) -> Deed:
    """One of the four, in a conversation of its own."""
    files = {"write_inside": tmp_path / "work/written", "write_outside": outside / "written"}
    made = tmp_path / "work/commanded"
    match name:
        case "write_inside" | "write_outside":
            order, happened = hands.write(str(files[name])), files[name].exists
        case "command":
            order, happened = hands.command(f"echo x > {made}"), made.exists
        case _:
            order, happened = hands.command(FETCH.format(url=server.url)), lambda: bool(server.visits)
    return await become(Chat(served, name), f"!call {order[0]} {json.dumps(order[1])}", happened)
