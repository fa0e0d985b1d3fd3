"""The other dialect on a real process: a small app-server that says what codex says, in the order codex says it."""

import asyncio
import dataclasses
import sys

import pytest

from ostler.pool.agent.transport import Transport
from ostler.pool.errors import AgentStartFailed, Phase, RecordIncomplete
from ostler.pool.events import Finished, StopReason, ToolEnded
from ostler.pool.launch.settings import Deadlines, ProviderSettings
from ostler.pool.prompt import TextPart
from ostler.pool.providers.codex_app_server import PROVIDER as CODEX
from ostler.wire.json import JsonObject
from tests.support import app_server
from tests.support.tickets import Answer, PlainTicket
from tests.support.transport_harness import TransportHarness, end_of, hear, say, text_of
from tests.support.waiting import eventually

APP_SERVER = (sys.executable, "-S", app_server.__file__)


async def server(harness: TransportHarness, command: tuple[str, ...] = APP_SERVER) -> Transport:
    return await harness.start(harness.plan(CODEX, ProviderSettings(command=command)))


async def test_a_turn_ends_by_its_own_event(harness: TransportHarness) -> None:
    transport = await server(harness)
    assert (transport.info.name, transport.info.version) == ("codex", "1.2.3")
    session = await transport.open(harness.order())
    assert session.model == "m"
    assert await say(session, "hello") == "hello"
    assert await say(session, "again") == "again"
    assert await transport.probe()


async def test_w40c_what_is_late_after_an_interrupt_is_dropped(harness: TransportHarness) -> None:
    transport = await server(harness)
    session = await transport.open(harness.order())
    turn = await session.prompt([TextPart("wait")])
    turn.cancel()
    assert end_of(await hear(turn)) == Finished(StopReason.CANCELLED)
    assert await say(session, "next") == "next"
    assert transport.dropped["stale"] == 1


async def test_w02_a_native_tool_call_reaches_the_session_that_its_thread_names(harness: TransportHarness) -> None:
    transport = await server(harness)
    tickets = [PlainTicket("first"), PlainTicket("second")]
    first, second = [await transport.open(harness.order(ticket=ticket)) for ticket in tickets]
    events = await hear(await second.prompt([TextPart("call")]))
    assert text_of(events) == "second:c"
    assert any(isinstance(event, ToolEnded) for event in events)
    assert (tickets[0].calls, tickets[1].calls) == ([], [("echo", {})])
    assert await say(first, "call foreign") == "no such session"
    assert (tickets[0].calls, transport.strays) == ([], 1)


async def test_an_unfinished_tool_call_is_answered_when_its_turn_is_cancelled(harness: TransportHarness) -> None:
    class Endless(PlainTicket):
        async def call(self, name: str, arguments: JsonObject, *, call_id: str) -> Answer:
            self.calls.append((name, arguments))
            await asyncio.Event().wait()
            return Answer([])

    ticket = Endless("t")
    transport = await server(harness)
    session = await transport.open(harness.order(ticket=ticket))
    turn = await session.prompt([TextPart("call")])
    await eventually(lambda: ticket.calls)
    await session.close()
    assert turn.finished is not None
    assert await say(await transport.open(harness.order()), "other") == "other"


async def test_m09_a_close_is_both_verbs(harness: TransportHarness) -> None:
    transport = await server(harness)
    assert await (await transport.open(harness.order())).close() is True
    session = await transport.open(harness.order())
    assert await say(session, "closed") == "thread/unsubscribe thread/archive"


async def test_w41e_a_thread_that_is_not_unearthed_in_time_is_a_load_that_failed(harness: TransportHarness) -> None:
    script = f"""
import json, runpy, sys
sys.argv = [{app_server.__file__!r}]
lines = sys.stdin
sys.stdin = (line for line in lines if json.loads(line)["method"] != "thread/unarchive")
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    settings = ProviderSettings(command=(sys.executable, "-c", script), deadlines=Deadlines(session_load=0.2))
    transport = await harness.start(harness.plan(CODEX, settings))
    memo = (await transport.open(harness.order())).memo
    with pytest.raises(AgentStartFailed, match="thread/unarchive") as caught:
        await transport.load(dataclasses.replace(memo, session_id="of-another-process"), harness.order())
    assert caught.value.phase is Phase.SESSION_LOAD
    assert transport.sessions == 1


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "a turn was not written"])
async def test_w41d_a_thread_is_believed_if_its_last_turn_is_what_was_said_last(
    harness: TransportHarness, *, lost: bool
) -> None:
    threads = harness.folder / "threads.json"
    command = (*APP_SERVER, "--threads", str(threads))
    first = await server(harness, command)
    session = await first.open(harness.order())
    await say(session, "one")
    whole = threads.read_text()
    await say(session, "two")
    turn = await session.prompt([TextPart("wait")])
    turn.cancel()
    assert end_of(await hear(turn)).reason is StopReason.CANCELLED
    await first.close()
    if lost:
        threads.write_text(whole)
    again = await server(harness, command)
    if lost:
        with pytest.raises(RecordIncomplete):
            await again.load(session.memo, harness.order())
        assert (again.sessions, again.leaked) == (0, 0)
        assert await say(await again.open(harness.order()), "closed") == "thread/unsubscribe thread/archive"
    else:
        assert await say(await again.load(session.memo, harness.order()), "recall") == "one\ntwo\nwait"


async def test_w41d_a_thread_whose_turns_cannot_be_listed_is_not_believed(harness: TransportHarness) -> None:
    command = (*APP_SERVER, "--threads", str(harness.folder / "threads.json"), "--old")
    first = await server(harness, command)
    session = await first.open(harness.order())
    await say(session, "one")
    await first.close()
    again = await server(harness, command)
    with pytest.raises(AgentStartFailed, match="thread/turns/list") as caught:
        await again.load(session.memo, harness.order())
    assert caught.value.phase is Phase.SESSION_LOAD
    assert (again.sessions, again.leaked) == (0, 0)


async def test_a_refused_turn_is_an_unknown_session(harness: TransportHarness) -> None:
    session = await (await server(harness)).open(harness.order())
    end = end_of(await hear(await session.prompt([TextPart("fail")])))
    assert end.reason is StopReason.FAILED
    assert session.sealed is not None


async def test_an_acp_agent_is_no_app_server(harness: TransportHarness) -> None:
    script = "import json\ninput()\nprint(json.dumps({'id': 1, 'result': {'protocolVersion': 1}}), flush=True)\ninput()"
    with pytest.raises(AgentStartFailed, match="no codex app-server") as caught:
        await server(harness, (sys.executable, "-c", script))
    assert caught.value.phase is Phase.HANDSHAKE
