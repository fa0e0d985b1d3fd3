"""Contract: the real bridge, by every channel that the provider declares: each call lands in its own session."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from ostler.bridge.binding import BindingState
from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.server import Bridge
from ostler.bridge.session_binding import RELAY, SessionBinding
from ostler.pool.provider import Provider, Sharing, ToolChannel
from tests.support import hostile
from tests.support.http_tools import running_channel
from tests.support.provider_harness import ProviderHarness, say
from tests.support.relays import running_bridge
from tests.support.tool_stage import tool
from tests.support.waiting import soon
from tests.support.witness import arguments, environment, tree


@dataclass
class Desk:
    """The dispatcher of one session: answers with its word and remembers who called."""

    word: str
    calls: list[ToolCall] = field(default_factory=list)

    async def __call__(self, call: ToolCall, /) -> CallResult:
        self.calls.append(call)
        return CallResult.text(self.word)


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    async with running_channel() as http, running_bridge(tmp_path, http=http) as bridge:
        yield bridge


def seat(bridge: Bridge, word: str) -> tuple[SessionBinding, Desk]:
    """A binding with a tool of a common name."""
    desk = Desk(word)
    binding = bridge.open([tool("peek")])
    binding.publish([tool("peek")], desk, context=word)
    return binding, desk


async def test_f02_a_call_comes_by_its_channel_and_token_to_its_dispatcher(
    provider_harness: ProviderHarness, bridge: Bridge, channel: ToolChannel
) -> None:
    binding, desk = seat(bridge, "tool-canary")
    session = await provider_harness.open(await provider_harness.start(channel=channel), ticket=binding)
    heard = await say(session, '!call peek {"text": "asked"}')
    assert "tool-canary" in heard.text
    assert [(call.name, call.arguments, call.context) for call in desk.calls] == [
        ("peek", {"text": "asked"}, "tool-canary")
    ]


async def test_f05_w02_calls_of_two_sessions_do_not_cross(
    provider_harness: ProviderHarness, bridge: Bridge, provider: Provider, channel: ToolChannel
) -> None:
    if provider.sharing is Sharing.NONE:
        pytest.skip("declared as not shared: one session for each process")
    transport = await provider_harness.start(channel=channel)
    seats = [seat(bridge, f"tool-canary-{name}") for name in ("a", "b")]
    sessions = [
        await provider_harness.open(transport, cwd=cwd, ticket=binding)
        for cwd, (binding, _) in zip(provider_harness.cwds(2), seats, strict=True)
    ]
    for _ in range(2):
        heard = await asyncio.gather(*(say(session, "!call peek {}\n!call peek {}") for session in sessions))
        assert ["tool-canary-a" in one.text for one in heard] == [True, False]
        assert ["tool-canary-b" in one.text for one in heard] == [False, True]
    assert [{call.context for call in desk.calls} for _, desk in seats] == [{"tool-canary-a"}, {"tool-canary-b"}]
    assert [len(desk.calls) for _, desk in seats] == [4, 4]


async def test_f08_a_revoked_binding_serves_nobody(
    provider_harness: ProviderHarness, bridge: Bridge, channel: ToolChannel
) -> None:
    binding, desk = seat(bridge, "tool-canary")
    session = await provider_harness.open(await provider_harness.start(channel=channel), ticket=binding)
    binding.revoke()
    heard = await say(session, "!call peek {}")
    assert "tool-canary" not in heard.text
    assert not desk.calls
    assert "echo: well" in (await say(session, "well")).text


async def test_f04_tools_of_two_sessions_are_listed_apart(
    provider_harness: ProviderHarness, bridge: Bridge, provider: Provider, channel: ToolChannel
) -> None:
    if provider.sharing is Sharing.NONE:
        pytest.skip("declared as not shared: one session for each process")
    transport = await provider_harness.start(channel=channel)
    sessions = []
    for cwd, name in zip(provider_harness.cwds(2), ("only_a", "only_b"), strict=True):
        binding = bridge.open([tool(name)])
        binding.publish([tool(name)], Desk(name))
        sessions.append(await provider_harness.open(transport, cwd=cwd, ticket=binding))
    a, b = [(await say(session, "!tools")).text for session in sessions]
    assert ("only_a" in a, "only_b" in a) == (True, False)
    assert ("only_a" in b, "only_b" in b) == (False, True)


async def test_f02_no_token_stands_in_an_argv_unless_declared(
    provider_harness: ProviderHarness, bridge: Bridge, provider: Provider, channel: ToolChannel
) -> None:
    binding, _ = seat(bridge, "tool-canary")
    transport = await provider_harness.start(channel=channel)
    await provider_harness.open(transport, ticket=binding)
    endpoint = binding.http() if channel is ToolChannel.HTTP else None
    token = binding.token if endpoint is None else endpoint.headers["Authorization"].split()[1]
    shown = [word for process in tree(transport.pid) for word in arguments(process.pid) if token in word]
    assert bool(shown) is (provider.tokens_in_argv and channel is not ToolChannel.DYNAMIC_TOOLS)


def relays(pid: int) -> set[int]:
    """Those of the sessions of one agent."""
    return {process.pid for process in tree(pid) if str(RELAY) in arguments(process.pid)}


async def test_n29_a_command_of_one_session_cannot_speak_for_the_relay_of_another(
    provider_harness: ProviderHarness, bridge: Bridge, provider: Provider, tmp_path: Path
) -> None:
    """It descends from the agent, may read and end what the agent started, and knows the token by whatever means."""
    place = tmp_path / "hostile"
    transport = await provider_harness.start(channel=ToolChannel.RELAY, prefix=hostile.prefix(place))
    if provider.sharing is not Sharing.NONE:
        await provider_harness.open(transport, cwd=provider_harness.cwd("other"), ticket=seat(bridge, "another")[0])
    before = relays(transport.pid)
    binding, desk = seat(bridge, "tool-canary")
    lost = asyncio.Event()
    session = await provider_harness.open(transport, cwd=provider_harness.cwd("work"), ticket=binding)
    binding.on_gone(lost.set)
    fresh = relays(transport.pid) - before
    (relay,) = fresh - {psutil.Process(pid).ppid() for pid in fresh}  # some agents start it below a process of theirs
    assert binding.token not in environment(relay).values()
    took = await hostile.attack(place, bridge.socket_path, relay, binding.token)
    assert [answer.get("error", {}).get("code") for answer in took["answers"]] == [-32010, -32010], took
    assert took["found"] != binding.token
    await soon(lost.wait(), "the loss of the relay")
    assert not desk.calls
    heard = await say(session, "!call peek {}\nwell")
    assert "tool-canary" not in heard.text
    assert not desk.calls


async def test_n16_beside_a_session_that_lost_its_relay_a_new_one_has_its_tools(
    provider_harness: ProviderHarness, bridge: Bridge, provider: Provider
) -> None:
    transport = await provider_harness.start(channel=ToolChannel.RELAY)
    binding, desk = seat(bridge, "tool-canary")
    lost = asyncio.Event()
    session = await provider_harness.open(transport, ticket=binding)
    binding.on_gone(lost.set)
    for relay in relays(transport.pid):
        os.kill(relay, signal.SIGKILL)
    await soon(lost.wait(), "the loss of the relay")
    assert binding.state is BindingState.REVOKED
    assert "echo: well" in (await say(session, "well")).text
    assert not desk.calls
    await session.close()
    if transport.lost is not None or provider.sharing is Sharing.NONE:
        transport = await provider_harness.start(channel=ToolChannel.RELAY)
    fresh, desk = seat(bridge, "tool-canary")
    heard = await say(await provider_harness.open(transport, ticket=fresh), "!call peek {}")
    assert "tool-canary" in heard.text
    assert len(desk.calls) == 1
