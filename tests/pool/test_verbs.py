"""What an operator can do to a living pool, and what its sessions notice of it."""

import asyncio
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.pool import Limits, PoolSettings, ToolSet
from ostler.pool.core import SettingsError
from ostler.pool.errors import AgentStartFailed, PoolPaused
from ostler.pool.events import Finished, StopReason
from ostler.pool.order import SessionMemo
from ostler.pool.providers import load
from tests.support.pools import alive, demo_settings, open_pool_harness, say


async def test_recycle_brings_the_successor_up_before_the_old_one_drains(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()
        lease = await harness.pool.lease(key)
        assert await say(lease, "remember me") == "echo: remember me"
        ((slot, old),) = [(process.slot, process.pid) for process in harness.pool.snapshot().processes]
        assert old is not None
        harness.pool.recycle(slot)
        await asyncio.wait_for(lease.wait_moved(), 300)
        assert lease.move == "operator"
        assert lease.lost is None
        assert alive(old)
        assert await say(lease, "!recall") == "remember me"
        async with await harness.pool.lease(key) as fresh:
            assert fresh.pid != old
            lease.release()
            await harness.settled(lambda: not alive(old))
            assert await say(fresh, "hello") == "echo: hello"


async def test_kill_fails_the_turn_on_that_process_and_no_other(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        victim, other = await harness.pool.lease(harness.key("a")), await harness.pool.lease(harness.key("b"))
        turns = [await lease.prompt(words) for lease, words in ((victim, "!sleep 60"), (other, "!sleep 0.5"))]
        (slot,) = [one.slot for one in harness.pool.snapshot().processes if one.pid == victim.pid]
        harness.pool.kill(slot)
        ends = [[event async for event in turn][-1] for turn in turns]
        assert [end.reason for end in ends if isinstance(end, Finished)] == [StopReason.FAILED, StopReason.DONE]


async def test_a_paused_key_waits_and_says_why(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()
        harness.pool.pause(key)
        with pytest.raises(PoolPaused, match="paused by an operator"):
            await harness.pool.lease(key, deadline=0.1)
        waiting = asyncio.create_task(harness.pool.lease(key))
        await asyncio.sleep(0)
        harness.pool.resume(key)
        (await waiting).release()


async def test_drain_ends_the_keys_processes_when_their_sessions_have_gone(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        pid = lease.pid
        harness.pool.drain(harness.key())
        await asyncio.wait_for(lease.wait_moved(), 300)
        assert await say(lease, "still served") == "echo: still served"
        lease.release()
        await harness.settled(lambda: not alive(pid))


async def test_w27a_a_reload_that_changes_the_process_drains_the_old_generation(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        old = lease.pid
        changed = demo_settings(harness.record, env={"CHANGED": "yes"})
        harness.pool.reload(PoolSettings(providers={"demo": changed}), {"HOME": str(tmp_path), "PATH": "/usr/bin"})
        await asyncio.wait_for(lease.wait_moved(), 300)
        assert lease.move == "fingerprint"
        async with await harness.pool.lease(harness.key()) as fresh:
            assert fresh.pid != old
        lease.release()
        await harness.settled(lambda: not alive(old))


async def test_w27a_a_reload_that_changes_nothing_moves_nobody(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        harness.pool.reload(harness.settings, harness.environ)
        assert lease.move is None
        assert await say(lease, "hello") == "echo: hello"
        lease.release()


async def test_a_key_that_is_kept_warm_has_a_seat_ready(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        harness.pool.warm(harness.key())
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked == 1)
        async with await harness.pool.lease(harness.key()) as lease:
            assert lease.warmth == "parked"


async def test_fewer_than_no_seats_cannot_be_kept(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        with pytest.raises(SettingsError, match="-1 seats"):
            harness.pool.warm(harness.key(), seats=-1)


async def test_the_snapshot_is_plain_data_without_tokens(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        harness.pool.warm(harness.key(), seats=2)
        lease = await harness.pool.lease(harness.key(), tools=ToolSet(), owner="someone")
        seen = json.loads(json.dumps(harness.pool.snapshot().as_json()))
        assert seen["enabled"] is True
        assert [held["owner"] for held in seen["core"]["leases"]] == ["someone"]
        assert seen["processes"][0]["pid"] == lease.pid
        lines = {line["tools"]: line["floor"] for line in seen["core"]["keys"][0]["lines"]}
        assert lines[""] == 2
        lease.release()


async def test_m09_an_agent_that_cannot_close_is_recycled_by_count(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--no-close", recycle_after=5) as harness:
        first = (await harness.transport()).pid
        for number in range(12):
            async with await harness.pool.lease(harness.key()) as lease:
                assert await say(lease, f"turn {number}") == f"echo: turn {number}"
        await harness.settled(lambda: not alive(first))
        async with await harness.pool.lease(harness.key()) as lease:
            assert lease.pid != first


async def test_resume_brings_the_agents_own_session_back_on_a_new_process(tmp_path: Path) -> None:
    flags = ("--state-dir", str(tmp_path / "state"))
    async with open_pool_harness(tmp_path, *flags, limits=replace(Limits(), max_processes=2)) as harness:
        lease = await harness.pool.lease(harness.key())
        assert await say(lease, "keep this") == "echo: keep this"
        memo = lease.session.memo
        harness.pool.kill(harness.pool.snapshot().processes[0].slot)
        await lease.wait_moved()
        lease.release()
        again = await harness.pool.lease(harness.key(), resume=memo)
        assert again.restored
        assert await say(again, "!recall") == "keep this"
        again.release()
        fresh = await harness.pool.lease(harness.key(), resume=replace(memo, session_id="demo-0000000000000000"))
        assert not fresh.restored
        assert await say(fresh, "!recall") == ""
        fresh.release()


async def test_w41e_a_load_that_fails_in_an_undeclared_way_ends_in_a_fresh_session(tmp_path: Path) -> None:
    traits = {"faults": replace(load()["demo"].faults, unknown_session=frozenset())}
    async with open_pool_harness(tmp_path, traits=traits) as harness:
        memo = SessionMemo("demo-0000000000000000", harness.key().cwd, 0.0, 0.0)
        pids = set()
        for _ in range(Limits().open_failures + 1):
            async with await harness.pool.lease(harness.key(), resume=memo) as lease:
                assert not lease.restored
                pids.add(lease.pid)
        assert len(pids) == 1
        assert harness.pool.snapshot().failures == ()


async def test_claims_that_want_one_session_back_all_get_a_seat_and_one_gets_the_session(tmp_path: Path) -> None:
    # One open at a time, as gemini and qwen ask for: the second wish is read after the first claim was served.
    flags = ("--state-dir", str(tmp_path / "state"))
    async with open_pool_harness(tmp_path, *flags, traits={"parallel_opens": 1}) as harness:
        async with await harness.pool.lease(harness.key()) as lease:
            assert await say(lease, "keep this") == "echo: keep this"
            memo = lease.session.memo
        await harness.settled(lambda: not harness.pool.snapshot().core.leases)
        resumed = (harness.pool.lease(harness.key(), resume=memo, owner=owner) for owner in ("ann", "ben", "cid"))
        leases = await asyncio.gather(*resumed)
        assert sorted(lease.restored for lease in leases) == [False, False, True]
        for lease in leases:
            lease.release()


async def test_sessions_that_are_brought_back_do_not_wait_for_the_end_of_each_others_replays(tmp_path: Path) -> None:
    flags, traits = ("--state-dir", str(tmp_path / "state")), {"parallel_opens": 1, "replay_quiet": 2.0}
    async with open_pool_harness(tmp_path, *flags, traits=traits) as harness:
        leases = [await harness.pool.lease(harness.key()) for _ in range(3)]
        for number, lease in enumerate(leases):
            assert await say(lease, f"keep {number}") == f"echo: keep {number}"
            lease.release()
        await harness.settled(lambda: not harness.pool.snapshot().core.leases)
        resumed = [harness.pool.lease(harness.key(), resume=lease.session.memo) for lease in leases]
        coming = asyncio.gather(*resumed)
        await harness.settled(lambda: sum(slot.opening for slot in harness.pool.snapshot().core.keys[0].slots) == 3)
        back = await coming
        assert all(lease.restored for lease in back)
        for number, lease in enumerate(back):
            assert f"keep {number}" in await say(lease, "!recall")
            lease.release()


async def test_a_session_is_brought_back_when_the_process_before_has_let_it_go(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--state-dir", str(tmp_path / "state"), deadlines={"close": 60}) as harness:
        lease = await harness.pool.lease(harness.key())
        assert await say(lease, "keep this") == "echo: keep this"
        harness.pool.recycle(harness.pool.snapshot().processes[0].slot)
        await lease.wait_moved()
        os.kill(lease.pid, signal.SIGSTOP)
        try:
            lease.release()
            coming = asyncio.create_task(harness.pool.lease(harness.key(), resume=lease.session.memo))
            # Asked for later, and there before: nothing else holds up the process that the session comes to.
            other = await harness.pool.lease(harness.key())
            assert await say(other, "hello") == "echo: hello"
            assert not coming.done()
            assert "session/load" not in harness.record.read_text()
        finally:
            os.kill(lease.pid, signal.SIGCONT)
        back = await coming
        assert back.restored
        assert back.pid == other.pid != lease.pid
        for each in (back, other):
            each.release()


async def test_nobody_waits_for_long_until_a_process_that_hangs_has_let_a_session_go(tmp_path: Path) -> None:
    async with open_pool_harness(
        tmp_path, "--state-dir", str(tmp_path / "state"), deadlines={"close": 0.05}
    ) as harness:
        lease = await harness.pool.lease(harness.key())
        assert await say(lease, "keep this") == "echo: keep this"
        harness.pool.recycle(harness.pool.snapshot().processes[0].slot)
        await lease.wait_moved()
        os.kill(lease.pid, signal.SIGSTOP)
        try:
            lease.release()
            async with await harness.pool.lease(harness.key(), resume=lease.session.memo) as back:
                assert back.restored
        finally:
            os.kill(lease.pid, signal.SIGCONT)


async def test_a_load_that_was_given_up_is_over_before_the_session_is_loaded_elsewhere(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--state-dir", str(tmp_path / "state"), deadlines={"close": 60}) as harness:
        witness = await harness.pool.lease(harness.key())
        async with await harness.pool.lease(harness.key()) as lease:
            assert await say(lease, "keep this") == "echo: keep this"
        await harness.settled(lambda: not any(slot.closing for slot in harness.pool.snapshot().core.keys[0].slots))
        (before,) = harness.pool.snapshot().processes
        os.kill(lease.pid, signal.SIGSTOP)
        try:
            coming = asyncio.create_task(harness.pool.lease(harness.key(), resume=lease.session.memo))
            await harness.settled(lambda: any(slot.opening for slot in harness.pool.snapshot().core.keys[0].slots))
            harness.pool.recycle(before.slot)
            await witness.wait_moved()
            other = await harness.pool.lease(harness.key())
            assert await say(other, "hello") == "echo: hello"
            assert other.pid != lease.pid
            assert "session/load" not in harness.record.read_text()
        finally:
            os.kill(lease.pid, signal.SIGCONT)
        back = await coming
        assert (back.restored, back.pid) == (True, other.pid)
        for each in (back, other, witness):
            each.release()


async def test_a_start_that_is_called_off_at_any_moment_leaves_no_slot(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--boot-delay", "0.2", limits=Limits(starts_per_second=100.0)) as harness:
        key = harness.key()
        for pauses in range(10):
            harness.pool.warm(key)
            for _ in range(pauses):
                await asyncio.sleep(0)
            harness.pool.warm(key, seats=0)
            for process in harness.pool.snapshot().processes:
                harness.pool.kill(process.slot)
            await harness.settled(lambda: harness.pool.snapshot().processes == ())


async def test_a_spare_serves_a_directory_that_nobody_foresaw(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, spares={"demo": 1}) as harness:
        first = await harness.pool.lease(harness.key("known"))
        await harness.settled(lambda: len(harness.pool.snapshot().core.spares) == 1)
        (spare,) = [one.pid for one in harness.pool.snapshot().processes if one.pid != first.pid]
        await harness.settled(lambda: len(harness.pids()) == 2)
        second = await harness.pool.lease(harness.key("unforeseen"))
        assert second.warmth == "spare"
        assert second.pid in harness.pids() - {first.pid}
        assert spare is None or second.pid == spare
        assert second.session.cwd == harness.key("unforeseen").cwd
        assert await say(second, "hello") == "echo: hello"
        for lease in (first, second):
            lease.release()


@pytest.mark.parametrize("up", [True, False])
async def test_a_spare_speaks_of_the_directory_that_it_serves(
    tmp_path: Path, up: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_pool_harness(tmp_path, *([] if up else ["--boot-delay", "0.3"]), spares={"demo": 1}) as harness:
        known, unforeseen = harness.key("known"), harness.key("unforeseen")
        first = await harness.pool.lease(known)
        await harness.settled(lambda: len(harness.pool.snapshot().core.spares) == 1)
        if up:
            await harness.settled(lambda: len(harness.pids()) == 2)
        second = await harness.pool.lease(unforeseen)
        assert second.pid != first.pid
        turn = await second.prompt("!sleep 30")
        caplog.clear()
        os.kill(second.pid, signal.SIGKILL)
        end = await turn.ended()
        await harness.settled(lambda: second.lost)
        (failure,) = harness.pool.snapshot().failures
        for text in (end.detail, str(second.lost), failure.text, caplog.text):
            assert unforeseen.cwd in text
            assert known.cwd not in text


async def test_w09_a_spare_of_one_model_serves_no_other(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, spares={"demo": 1}) as harness:
        await harness.pool.lease(harness.key("known", model="one"))
        await harness.settled(lambda: len(harness.pool.snapshot().core.spares) == 1)
        async with await harness.pool.lease(harness.key("unforeseen", model="other")) as lease:
            assert lease.warmth == "cold"


async def test_a_failure_in_the_snapshot_says_how_long_ago_it_was(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--refuse-initialize", fallback=False) as harness:
        with pytest.raises(AgentStartFailed):
            await harness.pool.lease(harness.key())
        (failed,) = harness.pool.snapshot().failures
        assert failed.kind == "AgentStartFailed"
        before = failed.ago
        assert 0 <= before < harness.settings.claim_deadline
        await asyncio.sleep(0)
        assert harness.pool.snapshot().failures[0].ago > before


async def test_a_turn_on_another_loop_is_cancelled_when_its_block_is_left(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()

        async def elsewhere() -> Finished:
            async with await harness.pool.lease(key) as lease:
                async with await lease.prompt("first\n!sleep 30") as turn:
                    await anext(aiter(turn))
                return await turn.ended()

        end = await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
        assert end.reason is StopReason.CANCELLED
