"""Contract: a session's tools are there when it is ready, and a call comes back."""

from dataclasses import replace

import pytest

from ostler.pool.errors import AgentStartFailed, Phase
from ostler.pool.events import ToolEnded, ToolStarted, ToolStatus
from ostler.pool.provider import Provider, ToolChannel, ToolNews
from ostler.wire.json import JsonObject
from tests.support.provider_harness import DEADLINES, ProviderHarness, say
from tests.support.tool_stage import StageRelay, ToolFailed, tool
from tests.support.waiting import soon
from tests.support.witness import arguments, tree

CALL = '!call peek {"text": "asked"}'


async def test_tool_call(provider_harness: ProviderHarness) -> None:
    ticket = provider_harness.tools("peek", word="tool-canary")
    session = await provider_harness.open(await provider_harness.start(), ticket=ticket)
    heard = await say(session, CALL)
    assert ticket.calls == [("peek", {"text": "asked"})]
    assert "tool-canary" in heard.text
    (started,) = heard.of(ToolStarted)
    assert [(end.id, end.status) for end in heard.of(ToolEnded)] == [(started.id, ToolStatus.COMPLETED)]


async def test_wm8_a_session_is_ready_when_its_relay_has_told_the_tools(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    transport = await provider_harness.start(channel=ToolChannel.RELAY)
    ticket = provider_harness.tools("peek", word="tool-canary")
    session = await provider_harness.open(transport, ticket=ticket)
    assert ticket.listed.is_set()
    assert ticket.pids
    assert {ticket.pids[-1]} <= {process.pid for process in tree(transport.pid)}
    shown = [word for process in tree(transport.pid) for word in arguments(process.pid) if ticket.token in word]
    assert bool(shown) is provider.tokens_in_argv
    assert "tool-canary" in (await say(session, CALL)).text


async def test_w02_the_session_is_stated_with_a_call_as_declared(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    ticket = provider_harness.tools("peek", word="tool-canary")
    session = await provider_harness.open(await provider_harness.start(channel=ToolChannel.RELAY), ticket=ticket)
    assert "tool-canary" in (await say(session, CALL)).text
    (meta,) = ticket.stated
    stated = meta.get("threadId", meta.get("sessionId")) == session.id
    assert stated or not provider.states_session
    assert provider.states_session or not (stated and provider.measured), "it could be declared"


async def test_wm8_a_tool_server_that_never_comes_fails_the_open(provider_harness: ProviderHarness) -> None:
    transport = await provider_harness.start(channel=ToolChannel.RELAY, deadlines=replace(DEADLINES, tools=1.5))
    ticket = provider_harness.tools("peek")
    ticket.relay = StageRelay("gw", ["/bin/false"], {})
    with pytest.raises(AgentStartFailed) as caught:
        await soon(transport.open(provider_harness.order(ticket=ticket)), "the failure of an open without tools")
    assert caught.value.phase in (Phase.TOOLS, Phase.SESSION_OPEN)
    assert transport.sessions == 0


async def test_a_failing_tool_is_an_error_for_its_caller_only(provider_harness: ProviderHarness) -> None:
    async def fail(_name: str, _arguments: JsonObject) -> str:
        raise ToolFailed("no such heron")

    ticket = provider_harness.tools("peek", handler=fail)
    session = await provider_harness.open(await provider_harness.start(), ticket=ticket)
    heard = await say(session, CALL)
    assert len(ticket.calls) == 1
    assert "no such heron" in heard.text
    assert (await say(session, "well")).text.strip() == "echo: well"


async def test_changed_tools_are_asked_for_as_declared(provider_harness: ProviderHarness, provider: Provider) -> None:
    if provider.find is None:
        pytest.skip("nothing was measured, so nothing is declared")
    ticket = provider_harness.tools("peek", word="tool-canary")
    session = await provider_harness.open(await provider_harness.start(), ticket=ticket)
    assert "later" not in (await say(session, "!tools")).text
    ticket.change([tool("peek"), tool("later")])
    if provider.tool_news is not ToolNews.IGNORED:
        await soon(ticket.listed.wait(), "the agent asking for the changed tools")
    heard = await say(session, "!call later {}")
    assert ticket.listed.is_set() is (provider.tool_news is not ToolNews.IGNORED)
    if provider.tool_news is not ToolNews.LATE:  # LATE promises nothing about the prompt that comes next
        assert ("tool-canary" in heard.text, bool(ticket.calls)) == (provider.tool_news is ToolNews.AT_ONCE,) * 2
