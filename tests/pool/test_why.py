"""What the pool says of its claims, with real processes: granted, fallen back, refused, and never whose they were."""

from pathlib import Path

import pytest

from ostler.pool import ToolSet
from ostler.pool.errors import PoolPaused
from tests.support.pools import open_pool_harness


async def test_claims_are_told_newest_first_with_what_they_waited_for(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        for _ in range(2):
            (await harness.pool.lease(harness.key(), owner="a person")).release()
        why = harness.pool.why(harness.key())
        warm, cold = why.claims
        assert (cold.answer, cold.warmth, cold.miss, cold.own_process) == ("granted", "cold", "no_process", False)
        assert cold.waited == pytest.approx(cold.queue + cold.spawn + cold.session_new)
        assert cold.spawn > 0
        assert (warm.spawn, warm.ago <= cold.ago) == (0, True)
        assert why.reasons is not None
        assert why.reasons.processes == 1
        assert "a person" not in str(why.as_json())


async def test_a_fallback_and_a_refusal_are_told_as_such(tmp_path: Path) -> None:
    flags = ("--fail-first-starts", "1", "--fail-state", str(tmp_path / "starts"))
    async with open_pool_harness(tmp_path, *flags) as harness:
        (await harness.pool.lease(harness.key())).release()
        fallback, refused = harness.pool.why(harness.key()).claims
        assert (fallback.answer, fallback.warmth, fallback.own_process) == ("granted", "fallback", True)
        assert (refused.answer, refused.warmth, refused.own_process) == ("start_failed", "", False)
        harness.pool.pause(harness.key())
        with pytest.raises(PoolPaused):
            await harness.pool.lease(harness.key(), deadline=0.05)
        paused, *_ = harness.pool.why(harness.key()).claims
        assert paused.answer == "paused"
        assert paused.waited > 0


async def test_with_the_pool_off_every_claim_is_a_process_of_its_own(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, enabled=False) as harness:
        (await harness.pool.lease(harness.key(), tools=ToolSet())).release()
        why = harness.pool.why(harness.key())
        assert not why.enabled
        assert [claim.own_process for claim in why.claims] == [True]


async def test_a_key_of_which_nothing_is_known_has_no_reasons(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, fallback=False) as harness:
        why = harness.pool.why(harness.key("elsewhere"))
        assert (why.reasons, why.claims) == (None, ())
