"""What a program that embeds the pool is promised: tools as functions, and a lease that is over when it is released."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ostler.bridge import SignatureRefused, Tool, ToolContext, open_bridge
from ostler.pool import LeaseEnded, NoToolPort, PoolSettings, ToolSet, TransportKey, TransportPool, open_pool
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.blocking import BlockingPool
from ostler.pool.events import Finished, StopReason, Text
from ostler.pool.owner_loop import ForeignLoopTurn
from tests.support.pools import open_pool_harness, say
from tests.support.waiting import eventually, soon

CALLS = '!call who\n!call count {"by": 2}'


def who(context: ToolContext) -> str:
    """Tells whose session this is."""
    return f"this is {context.session}"


class Counter:
    """A tool with a state of its own."""

    def __init__(self) -> None:
        self.value = 0

    async def count(self, by: int) -> int:
        """Counts on."""
        self.value += by
        return self.value


async def said(turn: AgentTurn | ForeignLoopTurn) -> list[str]:
    return "".join([event.text async for event in turn if isinstance(event, Text)]).splitlines()


async def test_n51_functions_answer_the_session_that_was_leased_with_them_and_no_other(tmp_path: Path) -> None:
    counters = {"ann": Counter(), "bob": Counter()}
    async with open_bridge() as bridge, open_pool_harness(tmp_path, tool_port=bridge) as harness:

        async def converse(name: str) -> list[str]:
            tools = [who, counters[name].count]
            async with await harness.pool.lease(harness.key(), tools=tools, tool_context=name) as lease:
                return [*await said(await lease.prompt(CALLS)), *await said(await lease.prompt(CALLS))]

        answers = await asyncio.gather(converse("ann"), converse("bob"))
        assert answers == [[f"this is {name}", "2", f"this is {name}", "4"] for name in counters]
        assert len(harness.starts()) == 1
        async with await harness.pool.lease(harness.key(), tools=[Tool.of(who, name="me")], tool_context="cy") as lease:
            assert await said(await lease.prompt("!tools\n!call me")) == ["me", "this is cy"]


async def test_n51_a_seat_that_is_kept_warm_with_functions_is_claimed_with_them(tmp_path: Path) -> None:
    async with open_bridge() as bridge, open_pool_harness(tmp_path, tool_port=bridge) as harness:
        harness.pool.warm(harness.key(), tools=[who])
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked == 1)
        async with await harness.pool.lease(harness.key(), tools=[who], tool_context="ann") as lease:
            assert lease.warmth == "parked"
            assert await say(lease, "!call who") == "this is ann"


async def test_n51_tools_that_nobody_could_answer_are_refused(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        definition = {"name": "who", "inputSchema": {"type": "object"}}
        for tools in ([who], [], ToolSet((definition,))):
            with pytest.raises(NoToolPort, match=r"open_pool\(tool_port=bridge\)"):
                await harness.pool.lease(harness.key(), tools=tools)
        with pytest.raises(NoToolPort):
            harness.pool.warm(harness.key(), tools=[who])
        assert harness.starts() == []
    async with open_bridge() as bridge, open_pool_harness(tmp_path / "other", tool_port=bridge) as harness:
        for wrong in (lambda anything: None, "who"):
            with pytest.raises(SignatureRefused):
                await harness.pool.lease(harness.key(), tools=[wrong])  # type: ignore[list-item] - what is no function


async def test_n51_a_released_lease_refuses_a_prompt_at_once(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        assert await say(lease, "hello") == "echo: hello"
        lease.release()
        with pytest.raises(LeaseEnded) as refused:
            await lease.prompt("hello")
        assert (refused.value.key, refused.value.lease) == (harness.key(), lease.id)
        other = await harness.pool.lease(harness.key())

        async def elsewhere() -> None:
            assert isinstance(await other.prompt("hi"), ForeignLoopTurn)
            other.release()
            with pytest.raises(LeaseEnded):
                await other.prompt("hello")

        await asyncio.to_thread(asyncio.run, elsewhere())

        def prompts() -> list[str]:
            frames = [json.loads(line).get("frame", {}) for line in harness.record.read_text().splitlines()]
            return [each["params"]["prompt"][0]["text"] for each in frames if each.get("method") == "session/prompt"]

        await eventually(lambda: len(prompts()) > 1, "the agent has read the second prompt")
        assert prompts() == ["hello", "hi"]


async def test_n51_a_release_cancels_the_running_turn_and_wakes_who_waits_for_a_move(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        turn = await lease.prompt("begun\n!sleep 3600")
        waiting = asyncio.create_task(lease.wait_moved())
        lease.release()
        await soon(waiting, "the wait for a move")
        end = await soon(turn.ended(), "the end of the turn")
        assert isinstance(end, Finished)
        assert end.reason is StopReason.CANCELLED
        assert (lease.move, lease.lost) == (None, None)


def test_n51_a_program_of_threads_has_functions_and_refusals_too(tmp_path: Path) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[TransportPool]:
        async with open_bridge() as bridge, open_pool(PoolSettings(), runtime_dir=tmp_path, tool_port=bridge) as pool:
            yield pool

    with BlockingPool(opened) as pool:
        lease = pool.lease(TransportKey("demo", "demo", str(tmp_path)), tools=[who], tool_context="ann")
        assert "".join(event.text for event in lease.prompt("!call who") if isinstance(event, Text)) == "this is ann"
        lease.release()
        with pytest.raises(LeaseEnded):
            lease.prompt("hello")
