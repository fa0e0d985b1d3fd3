"""Contract: a session is ended by the verb its provider declares, and the verb does what it says.

Flags and replies are not believed: an ended session is prompted, by the wire and past our own refusal.
"""

import pytest

from ostler.pool.agent.codec import AgentCall
from ostler.pool.agent.transport import Transport
from ostler.pool.errors import AgentFault, Phase, SessionEnded, TransportLost
from ostler.pool.prompt import TextPart
from ostler.pool.provider import CloseVerb, Provider, ToolChannel
from tests.support.provider_harness import ProviderHarness, say
from tests.support.waiting import soon
from tests.support.witness import gone, tree

ENDS = {CloseVerb.SESSION_CLOSE, CloseVerb.UNSUBSCRIBE_ARCHIVE}


async def still_answers(transport: Transport, session_id: str) -> bool:
    """Prompt a session that we have given up, behind our own back."""
    call: AgentCall = transport.codec.prompt(session_id, [TextPart("are you there")])
    try:
        await transport.connection.ask(call, deadline=20, phase=Phase.PROMPT)
    except AgentFault:
        return False
    return True


async def test_m05_close_acts_as_declared(provider_harness: ProviderHarness, provider: Provider) -> None:
    transport = await provider_harness.start()
    session, other = await provider_harness.open(transport), None
    await say(session, "hello")
    ended = await soon(session.close(), "the end of a session")
    assert ended is (provider.close is not CloseVerb.NONE)
    assert transport.leaked == int(not ended)
    with pytest.raises((SessionEnded, TransportLost)):
        await session.prompt([TextPart("more")])
    if provider.close is CloseVerb.KILL:
        assert transport.lost is not None
        return
    assert await still_answers(transport, session.id) is (provider.close is CloseVerb.NONE)
    other = await provider_harness.open(transport)
    assert "echo: well" in (await say(other, "well")).text


async def test_w34a_w34b_process_tree_after_close_is_as_before_open(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    transport = await provider_harness.start(channel=ToolChannel.RELAY)
    first = await provider_harness.open(transport)
    await say(first, "warm up what the process keeps for itself")
    before = tree(transport.pid)
    ticket = provider_harness.tools("peek", word="tool-canary")
    if provider.close is CloseVerb.KILL:
        pytest.skip("one session for each process: it goes with it")
    session = await provider_harness.open(transport, cwd=provider_harness.cwds(2)[1], ticket=ticket)
    assert "tool-canary" in (await say(session, "!call peek {}")).text
    added = tree(transport.pid) - before
    assert set(ticket.pids) <= {process.pid for process in added}
    await soon(session.close(), "the end of a session")
    if provider.close in ENDS and provider.close_ends_tools:
        await gone(added, 30)
    else:
        assert {process for process in added if process.alive}, "it does end sessions: declare how"
        await soon(transport.close(), "the end of the process")
        await gone(added)


async def test_close_in_mid_turn_ends_the_turn(provider_harness: ProviderHarness) -> None:
    transport = await provider_harness.start()
    session = await provider_harness.open(transport)
    turn = await session.prompt([TextPart("!stream 1\n!sleep 40")])
    await soon(session.close(), "the end of a busy session")
    assert turn.finished is not None
    assert transport.sessions == 0
