"""Contract: sharing is declared and proven. Canary words of one session must not be seen from another."""

import asyncio

import pytest

from ostler.pool.agent.session import AgentSession
from ostler.pool.events import StopReason, Text
from ostler.pool.provider import Provider, Sharing
from ostler.wire.json import JsonObject
from tests.support.provider_harness import ProviderHarness, begin, hear, say
from tests.support.tool_stage import StageTicket
from tests.support.waiting import soon


async def two(provider_harness: ProviderHarness, provider: Provider) -> tuple[list[AgentSession], list[StageTicket]]:
    """Two sessions of one process, each with a tool of a common name and one of its own."""
    if provider.sharing is Sharing.NONE:
        pytest.skip("declared as not shared: one session for each process")
    transport = await provider_harness.start()
    tickets = [provider_harness.tools("peek", f"only_{name}", word=f"tool-canary-{name}") for name in ("a", "b")]
    sessions = [
        await provider_harness.open(transport, cwd=cwd, ticket=ticket)
        for cwd, ticket in zip(provider_harness.cwds(2), tickets, strict=True)
    ]
    return sessions, tickets


async def test_w02_wm7_tools_of_one_session_are_unknown_to_the_other(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    (a, b), (ticket_a, ticket_b) = await two(provider_harness, provider)
    tools_a, tools_b = [(await say(session, "!tools")).text for session in (a, b)]
    assert ("only_a" in tools_a, "only_b" in tools_a) == (True, False)
    assert ("only_a" in tools_b, "only_b" in tools_b) == (False, True)
    heard = await asyncio.gather(say(a, "!call peek {}"), say(b, "!call peek {}"))
    assert ["tool-canary-a" in one.text for one in heard] == [True, False]
    assert ["tool-canary-b" in one.text for one in heard] == [False, True]
    assert (len(ticket_a.calls), len(ticket_b.calls)) == (1, 1)


async def test_w03a_wm7_history_and_events_of_one_session_stay_its_own(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    (a, b), _ = await two(provider_harness, provider)
    spoken = await asyncio.gather(say(a, "!sleep 0.2\nword-canary-a"), say(b, "!sleep 0.2\nword-canary-b"))
    assert [one.text.strip() for one in spoken] == ["echo: word-canary-a", "echo: word-canary-b"]
    recalled = await asyncio.gather(say(a, "!recall"), say(b, "!recall"))
    assert [one.text.count("word-canary-a") for one in recalled] == [1, 0]
    assert [one.text.count("word-canary-b") for one in recalled] == [0, 1]


async def test_w04_cancel_of_one_session_leaves_the_other_whole(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    (a, b), (_, ticket) = await two(provider_harness, provider)
    released = asyncio.Event()

    async def hold(_name: str, _arguments: JsonObject) -> str:
        await released.wait()
        return "tool-canary-b"

    ticket.handler = hold
    whole = asyncio.create_task(say(b, "!stream 20\n!call peek {}\nwhole"))
    await soon(ticket.called.wait(), "the other turn being in its middle")
    doomed = await begin(a, "!stream 1\n!sleep 40")
    async for event in doomed:
        if isinstance(event, Text):
            doomed.cancel()
    assert (await soon(doomed.ended(), "the end of the cancelled turn")).reason is StopReason.CANCELLED
    released.set()
    heard = await whole
    assert heard.finished.reason is StopReason.DONE
    assert "".join(f"t{number} " for number in range(20)).strip() in heard.text
    assert "tool-canary-b" in heard.text
    assert heard.text.strip().endswith("echo: whole")


async def test_z8_a_silent_turn_blocks_neither_another_turn_nor_an_open(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    (a, b), _ = await two(provider_harness, provider)
    silent = await begin(a, "!stream 1\n!sleep 40")
    assert (await say(b, "meanwhile")).text.strip() == "echo: meanwhile"
    assert not silent.finished
    silent.cancel()
    await hear(silent)
