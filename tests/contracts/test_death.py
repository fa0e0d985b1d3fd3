"""Contract: however a process ends, it is known at once, told once, and nothing of it is left."""

import asyncio
import os
import signal
import sys

import pytest

from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.transport import Transport
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.errors import TransportLost
from ostler.pool.events import StopReason, Text
from ostler.pool.provider import Provider, ToolChannel
from tests.support import noise
from tests.support.provider_harness import ProviderHarness, begin, hear, say
from tests.support.tool_stage import StageTicket
from tests.support.waiting import soon
from tests.support.witness import Witness, gone, open_files, tree


async def in_mid_turn(provider_harness: ProviderHarness) -> tuple[Transport, AgentSession, AgentTurn, set[Witness]]:
    """A process with a tool server, in a turn that has begun and will not end by itself."""
    transport = await provider_harness.start(channel=ToolChannel.RELAY)
    ticket = provider_harness.tools("peek", word="tool-canary")
    session = await provider_harness.open(transport, ticket=ticket)
    turn = await begin(session, "!call peek {}\n!stream 1\n!sleep 40")
    async for event in turn:
        if isinstance(event, Text) and "t0" in event.text:
            break
    return transport, session, turn, family(transport, ticket)


def family(transport: Transport, ticket: StageTicket) -> set[Witness]:
    """Everything that must go with it."""
    found = tree(transport.pid)
    assert set(ticket.pids) <= {process.pid for process in found}
    return found


async def test_e17_sigkill_in_mid_turn(provider_harness: ProviderHarness) -> None:
    transport = await provider_harness.start(channel=ToolChannel.RELAY)
    ticket = provider_harness.tools("peek", word="tool-canary")
    session = await provider_harness.open(transport, ticket=ticket)
    told: list[TransportLost] = []
    transport.on_lost(told.append)
    turn = await begin(session, "!call peek {}\n!stream 1\n!sleep 40")
    hearing = asyncio.create_task(hear(turn))
    await soon(ticket.called.wait(), "the turn being in its middle")
    left = family(transport, ticket)
    os.kill(transport.pid, signal.SIGKILL)
    heard = await soon(hearing, "the end of a turn whose process was killed")
    assert heard.finished.reason is StopReason.FAILED
    assert isinstance(heard.finished.cause, TransportLost)
    assert (heard.finished.cause.pid, heard.finished.cause.exit_code) == (transport.pid, -signal.SIGKILL)
    assert await soon(transport.wait_lost(), "the loss") is told[0]
    with pytest.raises(TransportLost):
        await transport.open(provider_harness.order())
    await gone(left)
    assert len(told) == 1


async def test_sigterm_to_the_group_leaves_nothing(provider_harness: ProviderHarness) -> None:
    transport, _, _, left = await in_mid_turn(provider_harness)
    os.killpg(os.getpgid(transport.pid), signal.SIGTERM)
    await soon(transport.wait_lost(), "the end of a process asked to end")
    await gone(left, 30)


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
async def test_e13_close_in_mid_turn_leaves_nothing(provider_harness: ProviderHarness, hard: bool) -> None:
    transport, session, _, left = await in_mid_turn(provider_harness)
    await soon(transport.close(hard=hard), "the end of a closed transport")
    await gone(left)
    assert session.sealed is not None
    with pytest.raises(TransportLost):
        await session.prompt([])
    await soon(transport.close(), "a second close")


async def test_e28_noise_on_its_pipes_ends_no_turn(provider_harness: ProviderHarness, provider: Provider) -> None:
    if provider_harness.recipe.asks != "!ask":
        pytest.skip("a real agent makes noise of its own accord, or not at all")
    transport = await provider_harness.start()
    session = await provider_harness.open(transport)
    heard = await say(session, "!junk\n!badutf8\n!bigline 2\n!stderr 4\nstill here")
    assert heard.text.strip().endswith("echo: still here")
    assert heard.finished.reason is StopReason.DONE
    assert transport.junk >= 2


async def test_w37a_w37b_noise_beside_an_agent_harms_no_turn(provider_harness: ProviderHarness) -> None:
    transport = await provider_harness.start(prefix=(sys.executable, "-I", noise.__file__))
    session = await provider_harness.open(transport)
    heard = await say(session, "!stream 20\nstill here")
    assert "".join(f"t{number} " for number in range(20)).strip() in heard.text
    assert heard.text.strip().endswith("echo: still here")
    assert heard.finished.reason is StopReason.DONE
    assert transport.junk >= len(noise.NOISE)


async def test_fds_return_to_where_they_were(provider_harness: ProviderHarness) -> None:
    first = await provider_harness.start()
    await first.close()
    before = len(open_files())
    for _ in range(3):
        transport = await provider_harness.start()
        await provider_harness.open(transport)
        await transport.close()
    assert len(open_files()) == before
