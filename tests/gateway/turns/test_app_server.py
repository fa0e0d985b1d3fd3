"""A gateway with both dialects: what a death of the app-server costs its conversations, and nobody else's."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from ostler.gateway.server.app import Gateway
from ostler.pool.providers.codex_app_server import PROVIDER
from tests.support import app_server
from tests.support.processes import kill_unheard
from tests.support.served import events_of, gateway_at, text_of
from tests.support.waiting import eventually

PROVIDERS = {"codex-app-server": {"command": [sys.executable, "-S", app_server.__file__]}, "demo": {}}


class Both:
    """The gateway and one client of it."""

    def __init__(self, gateway: Gateway, http: httpx.AsyncClient) -> None:
        self._gateway = gateway
        self._http = http

    async def ask(self, text: str, conversation: str, model: str = "codex-app-server/m") -> tuple[str, str]:
        """How a turn of this conversation ended, and its text."""
        body = {"model": model, "input": text, "conversation": conversation}
        answer = (await self._http.post("/v1/responses", json=body)).json()
        return answer["status"], text_of(answer)

    async def wait(self, conversation: str, begun: asyncio.Event) -> str:
        """How a turn ended that does not end by itself; `begun` says that it runs."""
        body = {"model": "codex-app-server/m", "input": "wait", "conversation": conversation, "stream": True}
        last: dict[str, Any] = {}
        async with self._http.stream("POST", "/v1/responses", json=body) as answer:
            async for line in answer.aiter_lines():
                for last in events_of(line):
                    if last["type"] == "response.output_text.delta":
                        begun.set()
        return str(last["response"]["status"])

    async def refused(self, text: str, conversation: str) -> tuple[int, str, str]:
        """The status of a refusal, its code, and what it says."""
        body = {"model": "codex-app-server/m", "input": text, "conversation": conversation}
        answer = await self._http.post("/v1/responses", json=body)
        error = answer.json()["error"]
        return answer.status_code, error["code"], error["message"]

    def servers(self) -> list[int]:
        """The pids of the app-servers."""
        processes = self._gateway.pool.snapshot().processes
        return [each.pid for each in processes if each.pid is not None and each.provider == "codex-app-server"]


@asynccontextmanager
async def both(folder: Path) -> AsyncIterator[Both]:
    async with (
        gateway_at(folder, PROVIDERS, {}, {}) as (gateway, base),
        httpx.AsyncClient(base_url=base, timeout=300, trust_env=False) as http,
    ):
        yield Both(gateway, http)


async def test_w41a_e27_e16_after_a_death_in_idleness_the_next_turn_has_the_whole_context(tmp_path: Path) -> None:
    async with both(tmp_path / "data") as served:
        assert await served.ask("apple", "x") == ("completed", "apple")
        assert await served.ask("pear", "x") == ("completed", "pear")
        (pid,) = served.servers()
        kill_unheard(pid)
        status, heard = await served.ask("plum", "x")
        assert status == "completed"
        assert [word in heard for word in ("apple", "pear", "plum")] == [True] * 3


async def test_e27_e17_after_a_death_in_two_turns_both_go_on_with_the_whole_context(tmp_path: Path) -> None:
    async with both(tmp_path / "data") as served:
        for name in "xy":
            await served.ask(f"{name}-word", name)
        await served.ask("z-word", "z", "demo/demo")
        (pid,) = served.servers()
        begun = {name: asyncio.Event() for name in "xy"}
        running = [asyncio.create_task(served.wait(*each)) for each in begun.items()]
        for event in begun.values():
            await event.wait()
        os.kill(pid, signal.SIGKILL)
        assert await asyncio.gather(*running) == ["failed", "failed"]
        for name, other in ("xy", "yx"):
            status, heard = await served.ask("again", name)
            assert (status, f"{name}-word" in heard, f"{other}-word" in heard) == ("completed", True, False)
        await eventually(lambda: pid not in served.servers(), "the end of the dead one's family")
        assert len(served.servers()) == 1
        assert await served.ask("!recall", "z", "demo/demo") == ("completed", "z-word")


async def test_m08_a_prompt_over_the_agents_limit_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    limit = PROVIDER.prompt_limit
    assert limit is not None
    async with both(tmp_path / "data") as served:
        assert await served.ask("apple", "x") == ("completed", "apple")
        status, code, said = await served.refused("x" * (limit.size + 1), "x")
        assert (status, code) == (400, "context_length_exceeded")
        assert f"{limit.size + 1}" in said
        # This agent repeats whatever it is told.
        status, heard = await served.ask("plum", "x")
        assert (status, "apple" in heard, "xx" in heard) == ("completed", True, False)
