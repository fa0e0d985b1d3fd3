"""Contract: what one session says, in order, and how its turn ends."""

import uuid
from time import time

import pytest

from ostler.pool.errors import LoadRefused, PromptTooLarge, SessionBusy, UnknownSession
from ostler.pool.events import Finished, StopReason, Text
from ostler.pool.order import SessionMemo
from ostler.pool.prompt import TextPart
from ostler.pool.provider import Provider
from tests.support.provider_harness import PATIENCE, ProviderHarness, begin, hear, say
from tests.support.waiting import soon

ENDLESS = "!stream 1\n!sleep 40"
"""Says `t0 ` and then nothing for longer than any test waits."""


async def test_prompt_and_text(provider_harness: ProviderHarness) -> None:
    session = await provider_harness.open(await provider_harness.start())
    heard = await say(session, "hello there")
    assert heard.text.strip() == "echo: hello there"
    assert heard.finished.reason is StopReason.DONE
    assert session.turn is None


async def test_a_session_remembers(provider_harness: ProviderHarness) -> None:
    session = await provider_harness.open(await provider_harness.start())
    await say(session, "canary-heron")
    assert (await say(session, "!recall")).text.count("canary-heron") == 1


async def test_stream_order_and_one_end(provider_harness: ProviderHarness) -> None:
    session = await provider_harness.open(await provider_harness.start())
    heard = await say(session, "!stream 200")
    assert heard.text.strip() == "".join(f"t{number} " for number in range(200)).strip()
    assert [event for event in heard.events if isinstance(event, Finished)] == [heard.events[-1]]


async def test_m04_cancel_ends_the_turn_as_cancelled(provider_harness: ProviderHarness) -> None:
    session = await provider_harness.open(await provider_harness.start())
    turn = await begin(session, ENDLESS)
    async for event in turn:
        if isinstance(event, Text):
            turn.cancel()
    end = await soon(turn.ended(), "the end of a cancelled turn")
    assert (end.reason, end.cause) == (StopReason.CANCELLED, None)
    assert session.sealed is None


async def test_w40c_nothing_of_a_cancelled_turn_enters_the_next(provider_harness: ProviderHarness) -> None:
    session = await provider_harness.open(await provider_harness.start())
    turn = await begin(session, "!stream 1\n!sleep 1\nlate-canary")
    async for event in turn:
        if isinstance(event, Text):
            break
    await soon(session.cancel(), "the end of a cancelled turn")
    heard = await say(session, "fresh\n!sleep 1.5\nend")
    assert heard.finished.reason is StopReason.DONE
    assert heard.text.strip() == "echo: fresh\necho: end"


async def test_m03_second_prompt_on_a_busy_session_is_refused_by_us(provider_harness: ProviderHarness) -> None:
    session = await provider_harness.open(await provider_harness.start())
    turn = await begin(session, "!sleep 0.5\nfirst")
    with pytest.raises(SessionBusy):
        await session.prompt([TextPart("canary-egret")])
    heard = await hear(turn)
    assert heard.text.strip() == "echo: first"
    assert (await say(session, "!recall")).text.count("canary-egret") == 0


async def test_m08_the_largest_prompt_is_taken_and_a_larger_one_refused(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    session = await provider_harness.open(await provider_harness.start())
    limit = provider.prompt_limit
    size = 1_000_000 if limit is None else limit.size
    words = "!think " + "x " * ((size - 20) // 2) + "\nstill here"
    assert (await say(session, words)).text.strip().endswith("echo: still here")
    if limit is not None:
        with pytest.raises(PromptTooLarge):
            await session.prompt([TextPart("x" * (limit.size + 1))])
        assert "echo: after" in (await say(session, "after")).text


async def test_unknown_session(provider_harness: ProviderHarness, provider: Provider) -> None:
    transport = await provider_harness.start()
    memo = SessionMemo(str(uuid.uuid4()), provider_harness.cwd(), opened_at=time() - 600, last_turn_at=time() - 600)
    expected = UnknownSession if provider.load.offered else LoadRefused
    with pytest.raises(expected):
        await soon(transport.load(memo, provider_harness.order()), "an answer about an unknown session", PATIENCE)
    assert transport.sessions == 0
    assert "echo: well" in (await say(await provider_harness.open(transport), "well")).text


async def test_m04_cancel_at_once_is_not_lost(provider_harness: ProviderHarness, provider: Provider) -> None:
    session = await provider_harness.open(await provider_harness.start())
    turn = await begin(session, ENDLESS)
    turn.cancel()
    end = await soon(turn.ended(), "the end of a turn cancelled before its first sign")
    assert (end.reason, end.cause) == (StopReason.CANCELLED, None)
    if session.sealed is not None:
        assert provider.faults.spoiled, "declared as good after any cancel"
        return
    assert "echo: well" in (await say(session, "well")).text
