"""Agents that make something in their HOME at the first start there: one makes it, the others find it."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ostler.pool.agent.per_home import PerHome, StartGate
from ostler.pool.agent.transport import Transport
from ostler.pool.errors import AgentStartFailed
from ostler.pool.provider import Provider
from tests.support.pools import alive
from tests.support.transport_harness import SCRIPTED, TransportHarness
from tests.support.waiting import eventually

# Makes its database between its start and its handshake, and cannot bear a second one that does the same meanwhile.
# The first start of all fails if it is told to, and leaves nothing.
MAKES_A_DATABASE = """
import pathlib
home = pathlib.Path(os.environ["HOME"])
made, making, failing = home / "made", home / "making", home / "fail-first"
if not made.exists():
    try:
        os.close(os.open(making, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        sys.exit("database is locked")
    if failing.exists():
        failing.unlink()
        making.unlink()
        sys.exit("no space left")
for line in sys.stdin:
    frame = json.loads(line)
    if not made.exists():
        time.sleep(0.2)
        made.touch()
    if frame["method"] == "initialize":
        answer(frame, {"protocolVersion": 1, "agentCapabilities": ABLE})
"""
SAYS_NOTHING = """
import pathlib
pathlib.Path(os.environ["HOME"], "pid").write_text(str(os.getpid()))
time.sleep(60)
"""
ALONE = dataclasses.replace(SCRIPTED, first_start_alone=True)


async def test_of_many_first_starts_at_once_each_succeeds(harness: TransportHarness) -> None:
    plan = harness.script_plan(MAKES_A_DATABASE, provider=ALONE)
    transports = await asyncio.gather(*(harness.start(plan) for _ in range(3)))
    assert len({transport.pid for transport in transports}) == 3


async def test_a_first_start_that_fails_lets_the_next_one_try(harness: TransportHarness) -> None:
    (harness.folder / "fail-first").touch()
    plan = harness.script_plan(MAKES_A_DATABASE, provider=ALONE)
    found = await asyncio.gather(*(harness.start(plan) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in found].count(AgentStartFailed) == 1


async def test_the_next_one_is_let_in_when_the_one_that_failed_is_gone(harness: TransportHarness) -> None:
    plan = harness.script_plan(SAYS_NOTHING, provider=ALONE, start=2.0)
    pid_file = harness.folder / "pid"
    there: list[bool] = []

    class Watched(StartGate):
        @asynccontextmanager
        async def passed(self) -> AsyncIterator[None]:
            try:
                async with super().passed():
                    yield
            finally:
                there.append(alive(int(pid_file.read_text())))

    class Watching(PerHome):
        def starts(self, provider: Provider, home: str) -> StartGate:
            return gate

    gate = Watched(used=False)
    with pytest.raises(AgentStartFailed):
        await Transport.start(plan, supervisor=harness.supervisor, per_home=Watching())
    assert there == [False]


async def test_after_the_first_one_nobody_waits() -> None:
    gate = StartGate(used=False)
    begun: list[int] = []
    inside: list[int] = []
    go_on = asyncio.Event()

    async def start(number: int) -> None:
        begun.append(number)
        async with gate.passed():
            inside.append(number)
            await go_on.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(start(number))
        await eventually(lambda: len(begun) == 3)
        assert inside == [0]
        go_on.set()
    assert sorted(inside) == [0, 1, 2]
    async with asyncio.timeout(300), gate.passed(), gate.passed():
        pass


async def test_a_start_that_is_given_up_while_it_waits_takes_no_place() -> None:
    gate = StartGate(used=False)
    begun = asyncio.Event()

    async def start() -> None:
        begun.set()
        async with gate.passed():
            pass

    async with gate.passed():
        waiting = asyncio.create_task(start())
        await begun.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
    await asyncio.wait_for(start(), 300)
