"""Contract: a session of an earlier process comes back whole and once, where its provider is trusted with that."""

import asyncio
import dataclasses
from pathlib import Path
from time import time

import pytest

from ostler.pool.agent.record_archive import BESIDE
from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.transport import Transport
from ostler.pool.errors import LoadRefused, RecordIncomplete
from ostler.pool.events import StopReason
from ostler.pool.order import LastTexts, SessionMemo
from ostler.pool.provider import Provider
from tests.support.provider_harness import PATIENCE, ProviderHarness, say
from tests.support.waiting import soon

WORD = "canary-bittern"
DESK = "desk"


async def remembered(provider_harness: ProviderHarness) -> SessionMemo:
    """A session with one turn, whose process is gone."""
    transport = await provider_harness.start()
    session = await provider_harness.open(transport)
    await say(session, WORD)
    ready = provider_harness.provider.load.ready_at(session.memo)
    # The agent writes its record by its own clock; there is nothing to wait on but that clock.
    await asyncio.sleep(0 if ready is None else max(0.0, min(ready, session.memo.last_turn_at + 5) - time()))
    await transport.close()
    return session.memo


async def reload(provider_harness: ProviderHarness, memo: SessionMemo) -> tuple[Transport, AgentSession]:
    transport = await provider_harness.start()
    ready = provider_harness.provider.load.ready_at(memo)
    assert ready is not None
    await asyncio.sleep(max(0.0, ready - time()))
    session = await soon(transport.load(memo, provider_harness.order()), "a loaded session", PATIENCE)
    return transport, session


def folders(home: Path, provider: Provider, session: AgentSession) -> set[str]:
    """Where its record is, of an agent that reads all of them for each load."""
    if provider.records is None:
        return set()
    found = {
        path.parent.name for path in home.rglob(provider.records.name.format(session.id[: provider.records.known]))
    }
    assert found, "nothing is called as the declaration says"
    return {name.replace(Path(provider.records.folders).name, DESK) for name in found}


async def test_w41d_w41f_w03a_a_loaded_session_has_its_history_once_or_is_refused(
    provider_harness: ProviderHarness, provider: Provider, home: Path
) -> None:
    if not provider.load.offered:
        pytest.skip("declared as not to be trusted with loads")
    memo = await remembered(provider_harness)
    for turns in (1, 2):
        transport, session = await reload(provider_harness, memo)
        assert session.remembers
        heard = await say(session, f"!recall\n!stream 3\nround {turns}")
        assert heard.text.count(WORD) == 1
        assert heard.text.count("t0 t1 t2 ") == 1
        assert heard.finished.reason is StopReason.DONE
        cut = await say(session, f"cut short after round {turns}\n!limit")
        assert (session.memo.said.since == 0) is (cut.finished.reason in {StopReason.DONE, StopReason.LIMIT})
        memo = session.memo
        await asyncio.sleep(provider.load.settle)
        assert folders(home, provider, session) <= {DESK}
        await session.close()
        assert folders(home, provider, session) <= {DESK + BESIDE}
        await transport.close()
    transport = await provider_harness.start()
    later = dataclasses.replace(memo, said=LastTexts("what-was-said-while-nothing-could-be-written"))
    with pytest.raises(RecordIncomplete):
        await soon(
            transport.load(later, provider_harness.order()), "an answer of an agent that has forgotten", PATIENCE
        )
    assert transport.sessions == 0
    assert "echo: well" in (await say(await provider_harness.open(transport), "well")).text


async def test_a_load_that_cannot_be_trusted_is_refused_before_it_is_asked(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    transport = await provider_harness.start()
    now = time()
    memo = SessionMemo("of-no-matter", provider_harness.cwd(), opened_at=now, last_turn_at=now)
    if provider.load.ready_at(memo) == now:
        pytest.skip("trusted at any time")
    with pytest.raises(LoadRefused):
        await transport.load(memo, provider_harness.order())
    assert transport.connection.pending == 0


async def test_w28b_a_load_from_another_directory_is_refused(provider_harness: ProviderHarness) -> None:
    transport = await provider_harness.start()
    memo = SessionMemo("of-no-matter", provider_harness.cwd("elsewhere"), opened_at=0, last_turn_at=0)
    with pytest.raises(LoadRefused):
        await transport.load(memo, provider_harness.order())
