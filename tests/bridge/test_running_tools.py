"""Typed tools behind a real relay."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler.bridge import tools
from ostler.bridge.server import Bridge
from ostler.bridge.session_facts import SessionFacts
from ostler.bridge.threads import Threads
from ostler.bridge.tool import ToolContext, tool
from ostler.bridge.toolbelt import Toolbelt
from tests.support.relays import relay, running_bridge

KEY = "sk-" + "a1B2" * 10


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    async with running_bridge(tmp_path) as running:
        yield running


@pytest.fixture
def threads() -> Threads:
    return Threads(4, share=2)


@tool
async def leaky() -> None:
    raise RuntimeError(f"the server at https://me:{KEY}@host refused {KEY}")


@tool(timeout=0.05)
async def endless() -> None:
    await asyncio.Event().wait()


@tool
async def whose(context: ToolContext) -> str:
    return str(context.session)


async def test_f15_a_tool_that_fails_or_overruns_is_an_error_and_the_connection_lives(
    bridge: Bridge, threads: Threads, caplog: pytest.LogCaptureFixture
) -> None:
    binding = bridge.open()
    offer = Toolbelt([leaky, endless, whose], threads=threads).offer
    bridge.publish(binding, offer.definitions, offer.dispatcher, "session-a")
    async with relay(binding) as client:
        await client.initialize()
        failed = (await client.call("leaky"))["result"]
        assert failed["isError"]
        assert failed["content"][0]["text"].startswith("leaky failed: RuntimeError: the server at https://[redacted]")
        overran = (await client.call("endless"))["result"]
        assert overran["content"][0]["text"] == "endless did not finish within 0.05 s and was stopped"
        wrong = (await client.call("whose", {"x": 1}))["result"]
        assert "- x: unknown" in wrong["content"][0]["text"]
        assert await client.text("whose") == "session-a"
    assert KEY not in caplog.text


async def test_f16_a_thread_that_takes_its_time_is_not_in_the_way(bridge: Bridge, threads: Threads) -> None:
    gate, begun = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        begun.set()
        gate.wait()
        return "at last"

    a, b = bridge.open(), bridge.open()
    for binding, mark in ((a, "A"), (b, "B")):
        offer = Toolbelt([slow, whose], threads=threads).offer
        bridge.publish(binding, offer.definitions, offer.dispatcher, mark)
    async with relay(a) as at_a, relay(b) as at_b:
        await at_a.initialize()
        await at_b.initialize()
        waiting = at_a.call("slow")
        await asyncio.to_thread(begun.wait)
        assert {await at_b.text("whose") for _ in range(20)} == {"B"}
        assert await at_a.text("whose") == "A"
        assert not waiting.done()
        gate.set()
        assert (await waiting)["result"]["content"][0]["text"] == "at last"


async def test_b24_session_info_answers_for_its_own_session(bridge: Bridge, threads: Threads) -> None:
    bindings = [bridge.open() for _ in range(2)]
    for number, binding in enumerate(bindings):
        offer = Toolbelt(tools.load(plugins=()), threads=threads).offer
        facts = SessionFacts(session_id=f"s{number}", title=f"Talk {number}", cwd="/repo", model="m")
        bridge.publish(binding, offer.definitions, offer.dispatcher, facts)
    async with relay(bindings[0]) as at_a, relay(bindings[1]) as at_b:
        await at_a.initialize()
        await at_b.initialize()
        answers = await asyncio.gather(*(client.call("session_info") for _ in range(20) for client in (at_a, at_b)))
    found = [answer["result"]["structuredContent"] for answer in answers]
    expected = [{"session_id": f"s{n}", "title": f"Talk {n}", "cwd": "/repo", "model": "m"} for n in range(2)]
    assert found == expected * 20
