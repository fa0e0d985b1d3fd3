"""Beside a first answer nothing is started that nobody waits for: with real processes."""

import asyncio
from dataclasses import replace
from pathlib import Path

from ostler.pool import Limits
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.core import ReserveRule
from ostler.pool.provider import Sharing
from tests.support.pools import open_pool_harness, say

ALONE = {"sharing": Sharing.NONE, "seats_per_process": 1}
PATIENT = Limits(give_way=60.0)
"""Far longer than the test: what is started is started because of what was said."""


async def test_the_next_process_starts_when_the_first_words_have_come(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits=ALONE, limits=PATIENT) as harness:
        lease = await harness.pool.lease(harness.key())
        assert len(harness.pool.snapshot().processes) == 1
        turn = await lease.prompt("!late")
        await anext(aiter(turn))
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 1)


async def test_a_first_turn_that_ends_without_a_word_is_waited_for_no_longer(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits=ALONE, limits=PATIENT) as harness:
        lease = await harness.pool.lease(harness.key())
        turn = await lease.prompt("!hang")
        assert len(harness.pool.snapshot().processes) == 1
        turn.cancel()
        lease.release()
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 1)


async def test_whoever_waits_makes_way_for_nobody(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits=ALONE, limits=PATIENT) as harness:
        async with asyncio.timeout(300):
            first = await harness.pool.lease(harness.key())
            second = await harness.pool.lease(harness.key("other"))
        assert {first.warmth, second.warmth} == {"cold"}
        assert await say(first, "hello") == "echo: hello"


async def test_a_turn_without_a_word_whose_seat_is_gone_at_once_leaves_the_next_answer_to_be_heard(
    tmp_path: Path,
) -> None:
    async with open_pool_harness(tmp_path, limits=replace(PATIENT, reserve=ReserveRule(most=1))) as harness:
        first = await harness.pool.lease(harness.key())
        turn = await first.prompt("!sleep 60")
        turn.cancel()
        assert isinstance(turn, AgentTurn)
        await turn.ended()
        first.release()
        second = await harness.pool.lease(harness.key())
        assert second.pid == first.pid
        assert await say(second, "hello") == "echo: hello"
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 1)
