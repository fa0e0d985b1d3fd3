"""Contract: who may act is decided by the session's own policy, and a pending question holds up nobody else.

The question is provoked by a tool call where the agent asks for those, by the demo agent's `!ask` otherwise.
"""

import asyncio
from dataclasses import dataclass, field

import pytest

from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.transport import Transport
from ostler.pool.events import PermissionAnswered, PermissionAsked, StopReason
from ostler.pool.permission import allow, ask, deny
from ostler.pool.ports import PermissionPolicy
from ostler.pool.provider import Approval, Provider, Sharing, ToolChannel
from tests.support.provider_harness import Heard, ProviderHarness, begin, hear, say
from tests.support.tool_stage import StageTicket
from tests.support.waiting import soon


@dataclass
class Person:
    """Somebody who never answers; `asked` is set when they were asked."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _session_id: str, _asked: PermissionAsked) -> str | None:
        self.asked.set()
        await asyncio.Event().wait()
        return None


@dataclass
class Asking:
    """A process whose agent asks before it acts."""

    provider_harness: ProviderHarness
    transport: Transport

    async def open(self, policy: PermissionPolicy, cwd: str | None = None) -> tuple[AgentSession, StageTicket]:
        ticket = self.provider_harness.tools("peek", word="tool-canary")
        return await self.provider_harness.open(self.transport, cwd=cwd, ticket=ticket, policy=policy), ticket

    @property
    def order(self) -> str:
        return (
            "!ask" if self.provider_harness.recipe.asks == "!ask" else f"{self.provider_harness.recipe.asks} peek {{}}"
        )

    def acted(self, heard: Heard, ticket: StageTicket) -> bool:
        """Whether it did what it asked for."""
        return bool(ticket.calls) or "selected: allow" in heard.text


@pytest.fixture
async def asking(provider_harness: ProviderHarness, provider: Provider) -> Asking:
    if Approval.ASK not in provider.approvals:
        pytest.skip("declared as never asking")
    channel = ToolChannel.RELAY if provider.tool_channel is not ToolChannel.RELAY else None
    return Asking(provider_harness, await provider_harness.start(approval=Approval.ASK, channel=channel))


async def test_permission_allowed(asking: Asking) -> None:
    session, ticket = await asking.open(allow)
    heard = await say(session, asking.order)
    (asked,) = heard.of(PermissionAsked)
    (answered,) = heard.of(PermissionAnswered)
    assert (answered.id, answered.by) == (asked.id, "allow")
    assert answered.option is not None
    assert answered.option.kind.startswith("allow")
    assert asking.acted(heard, ticket)
    assert heard.finished.reason is StopReason.DONE


async def test_permission_denied(asking: Asking) -> None:
    session, ticket = await asking.open(deny)
    heard = await say(session, asking.order)
    assert heard.of(PermissionAsked)
    assert not asking.acted(heard, ticket)
    assert "echo: well" in (await say(session, "well")).text


async def test_permission_nobody_answers_in_time(asking: Asking) -> None:
    person = Person()
    session, ticket = await asking.open(ask(person, deadline=0.3))
    heard = await say(session, asking.order)
    assert person.asked.is_set()
    (answered,) = heard.of(PermissionAnswered)
    assert answered.by == "timeout"
    assert not asking.acted(heard, ticket)


async def test_w38a_a_pending_permission_blocks_no_other_session(asking: Asking, provider: Provider) -> None:
    if provider.sharing is Sharing.NONE:
        pytest.skip("one session for each process")
    person = Person()
    cwd_a, cwd_b = asking.provider_harness.cwds(2)
    waiting, _ = await asking.open(ask(person, deadline=60), cwd_a)
    turn = await begin(waiting, asking.order)
    await soon(person.asked.wait(), "the agent asking")
    other, _ = await asking.open(allow, cwd_b)
    assert (await say(other, "meanwhile")).text.strip() == "echo: meanwhile"
    assert turn.finished is None
    turn.cancel()
    await hear(turn)


async def test_w39b_cancel_settles_a_pending_permission(asking: Asking) -> None:
    person = Person()
    session, ticket = await asking.open(ask(person, deadline=60))
    turn = await begin(session, asking.order)
    await soon(person.asked.wait(), "the agent asking")
    turn.cancel()
    heard = await hear(turn)
    assert heard.finished.reason is StopReason.CANCELLED
    assert [(answer.option, answer.by) for answer in heard.of(PermissionAnswered)] == [(None, "cancel")]
    assert not asking.acted(heard, ticket)
    assert session.sealed is None
    assert "echo: well" in (await say(session, "well")).text
