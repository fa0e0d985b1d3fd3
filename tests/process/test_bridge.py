"""The bridge over its real socket, with real relays: ACCEPTANCE F."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler.bridge.server import Bridge
from tests.support.relays import Echo, relay, running_bridge, tool

ECHO = [tool("echo", "says who it is", text={"type": "string"})]


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    async with running_bridge(tmp_path) as running:
        yield running


async def test_f04_each_lists_its_own_tools(bridge: Bridge) -> None:
    a, b = bridge.open([tool("same", "A's")]), bridge.open([tool("same", "B's"), tool("more")])
    async with relay(a) as at_a, relay(b) as at_b:
        assert (await at_a.initialize())["result"]["protocolVersion"] == "2025-06-18"
        await at_b.initialize()
        assert [entry["description"] for entry in await at_a.tools()] == ["A's"]
        assert [entry["description"] for entry in await at_b.tools()] == ["B's", ""]
        await a.attached()


async def test_a_call_reaches_its_dispatcher(bridge: Bridge) -> None:
    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, Echo("A"), "session-a")
    async with relay(binding) as client:
        await client.initialize()
        assert await client.text("echo", {"text": "hi"}) == "A:session-a:hi"
