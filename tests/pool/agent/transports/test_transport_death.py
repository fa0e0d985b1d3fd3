"""Death: everybody who waits learns it once, soon, with the facts."""

import asyncio
import os
import signal

import pytest

from ostler.pool.errors import AgentSilent, Phase, TransportLost
from ostler.pool.events import Finished, StopReason
from ostler.pool.prompt import TextPart
from ostler.process import Ending
from tests.support.transport_harness import TransportHarness, end_of, hear, say, text_of
from tests.support.waiting import eventually

SOON = 300.0


async def test_wm1_every_turn_open_and_waiter_learns_the_death_once(harness: TransportHarness) -> None:
    transport = await harness.demo("--slow-session-new", "0.1")
    sessions = await asyncio.gather(*(transport.open(harness.order()) for _ in range(3)))
    turns = [await session.prompt([TextPart("!sleep 30")]) for session in sessions]
    told: list[TransportLost] = []
    transport.on_lost(told.append)
    opening = asyncio.create_task(transport.open(harness.order()))
    await eventually(lambda: harness.asked("session/new") == 4)
    os.kill(transport.pid, signal.SIGKILL)
    async with asyncio.timeout(SOON):
        lost = await transport.wait_lost()
        ends = [end_of(await hear(turn)) for turn in turns]
        with pytest.raises(TransportLost):
            await opening
    assert (lost.key, lost.pid, lost.exit_code) == (str(transport.key), transport.pid, -signal.SIGKILL)
    assert told == [lost]
    causes = [end.cause for end in ends]
    assert len({id(cause) for cause in causes}) == 3
    assert all(isinstance(cause, TransportLost) and cause.phase is Phase.PROMPT for cause in causes)
    assert transport.sessions == 0
    late: list[TransportLost] = []
    transport.on_lost(late.append)
    assert late == [lost]


@pytest.mark.parametrize("order", ["!fork", "!daemon"])
async def test_wm1_a_grandchild_that_holds_stdout_delays_nothing(harness: TransportHarness, order: str) -> None:
    transport = await harness.demo()
    session = await transport.open(harness.order())
    await say(session, order)
    turn = await session.prompt([TextPart("!sleep 30")])
    os.kill(transport.pid, signal.SIGKILL)
    async with asyncio.timeout(SOON):
        assert (await turn.ended()).reason is StopReason.FAILED


async def test_wm1_exit_code_0_is_no_clean_end(harness: TransportHarness) -> None:
    transport = await harness.demo()
    session = await transport.open(harness.order())
    turn = await session.prompt([TextPart("!stderr 0.001\n!die 0")])
    end = await turn.ended()
    assert isinstance(end.cause, TransportLost)
    assert end.cause.exit_code == 0
    assert end.cause.stderr
    with pytest.raises(TransportLost):
        await session.prompt([TextPart("x")])
    with pytest.raises(TransportLost):
        await transport.open(harness.order())
    assert not await transport.probe()
    assert await session.close() is True


async def test_what_came_before_the_death_is_not_lost(harness: TransportHarness) -> None:
    session = await (await harness.demo()).open(harness.order())
    events = await hear(await session.prompt([TextPart("last words\n!die 3")]))
    assert "last words" in text_of(events)
    assert isinstance(events[-1], Finished)


async def test_w18c_an_agent_that_answers_nothing_fails_its_probe(harness: TransportHarness) -> None:
    transport = await harness.demo()
    session = await transport.open(harness.order())
    assert await transport.probe()
    await session.prompt([TextPart("!hang all")])
    await eventually(lambda: harness.asked("session/prompt"))
    assert not await transport.probe(0.2)


async def test_an_agent_that_stops_reading_delays_a_prompt_only_until_its_deadline(harness: TransportHarness) -> None:
    script = """
for method, frame, session in frames():
    time.sleep(60)
"""
    transport = await harness.scripted(script, write=0.2)
    sessions = [await transport.open(harness.order()) for _ in range(3)]
    await sessions[0].prompt([TextPart("stop reading")])
    await sessions[1].prompt([TextPart("x" * (4 << 20))])
    with pytest.raises(AgentSilent):
        await sessions[2].prompt([TextPart("y")])
    assert sessions[2].turn is None


async def test_a_close_ends_turns_and_is_no_loss_to_warn_of(
    harness: TransportHarness, caplog: pytest.LogCaptureFixture
) -> None:
    transport = await harness.demo()
    session = await transport.open(harness.order())
    turn = await session.prompt([TextPart("!sleep 30")])
    await asyncio.gather(transport.close(), transport.close())
    # An agent that is polite at EOF cancels its turns; one that is not is lost. Either way the turn ends.
    assert (await turn.ended()).reason in (StopReason.CANCELLED, StopReason.FAILED)
    assert transport.closing
    assert not caplog.records


@pytest.mark.parametrize("order", ["!junk", "!stderr 10", "!bigline 20"])
async def test_w36_w37b_noise_harms_nobody(harness: TransportHarness, order: str) -> None:
    transport = await harness.demo()
    loud, quiet = [await transport.open(harness.order()) for _ in range(2)]
    turn = await loud.prompt([TextPart(order)])
    assert await say(quiet, "hello") == "echo: hello"
    assert end_of(await hear(turn)).reason is StopReason.DONE
    assert await say(loud, "again") == "echo: again"


async def test_f05_a_close_that_is_never_answered_holds_up_the_end_only_for_its_own_time(
    harness: TransportHarness,
) -> None:
    transport = await harness.scripted("for _ in frames('session/close'): pass", close=0.2)
    session = await transport.open(harness.order())
    async with asyncio.timeout(SOON):
        await asyncio.gather(session.close(), transport.close())
    ended = transport.connection.process.exit
    assert ended is not None
    assert (ended.ending, ended.code) == (Ending.ON_EOF, 0)


async def test_f05_a_question_after_the_eof_is_no_reason_to_kill(harness: TransportHarness) -> None:
    script = "for _ in frames(): pass\nsay(id=1, method='what/is/this')\nprint('junk {', flush=True)\ntime.sleep(0.2)"
    transport = await harness.scripted(script)
    await transport.close()
    ended = transport.connection.process.exit
    assert ended is not None
    assert (ended.ending, ended.code) == (Ending.ON_EOF, 0)
