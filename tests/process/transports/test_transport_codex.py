"""The other dialect on a real process: a small app-server that says what codex says, in the order codex says it."""

import asyncio
import sys

import pytest

from ostler.pool.errors import AgentStartFailed, Phase
from ostler.pool.events import Finished, Reason, ToolEnded
from ostler.pool.prompt import TextPart
from ostler.pool.providers.codex_app_server import PROVIDER as CODEX
from ostler.pool.settings import ProviderSettings
from ostler.pool.transport import Transport
from ostler.wire.json import JsonObject
from tests.support.stable import Stable, end_of, hear, say, text_of
from tests.support.tickets import Answer, PlainTicket
from tests.support.waiting import eventually

APP_SERVER = r"""
import json, sys
def say(**frame):
    sys.stdout.write(json.dumps(frame) + "\n"); sys.stdout.flush()
threads, turns, waiting, closed = 0, 0, {}, []
def begin(frame, thread):
    global turns
    turns += 1
    turn = f"turn-{turns}"
    say(id=frame["id"], result={"turn": {"id": turn}})
    say(method="turn/started", params={"threadId": thread, "turn": {"id": turn}})
    return turn
def delta(thread, turn, text):
    say(method="item/agentMessage/delta", params={"threadId": thread, "turnId": turn, "itemId": "i", "delta": text})
def end(thread, turn, status="completed"):
    say(method="turn/completed", params={"threadId": thread, "turn": {"id": turn, "status": status, "items": []}})
for line in sys.stdin:
    frame = json.loads(line)
    method, params = frame.get("method"), frame.get("params") or {}
    thread = params.get("threadId")
    if method == "initialize":
        assert params["capabilities"]["experimentalApi"]
        say(id=frame["id"], result={"userAgent": "ostler/1.2.3 (x)"})
    elif method == "thread/start":
        threads += 1
        say(id=frame["id"], result={"thread": {"id": f"thread-{threads}"}, "model": "m"})
    elif method == "turn/start":
        words = params["input"][0]["text"]
        if words == "fail":
            say(id=frame["id"], error={"code": -32600, "message": "thread not found: " + thread})
            continue
        turn = begin(frame, thread)
        if words == "wait":
            waiting[thread] = turn
        elif words == "call":
            waiting[thread], waiting["tool"] = turn, (thread, turn)
            say(id=77, method="item/tool/call", params={"threadId": thread, "turnId": turn, "callId": "c",
                "tool": "echo", "arguments": {}})
        elif words == "call foreign":
            waiting["tool"] = (thread, turn)
            say(id=77, method="item/tool/call", params={"threadId": "thread-of-another", "turnId": turn,
                "callId": "c", "tool": "echo", "arguments": {}})
        elif words == "closed":
            delta(thread, turn, " ".join(closed)); end(thread, turn)
        else:
            delta(thread, turn, words); end(thread, turn)
    elif method == "turn/interrupt":
        say(id=frame["id"], result={})
        turn = waiting.pop(thread)
        end(thread, turn, "interrupted")
        delta(thread, turn, "late ")
    elif method in ("thread/unsubscribe", "thread/archive"):
        closed.append(method); say(id=frame["id"], result={})
    elif frame.get("id") == 77:
        (thread, turn), result = waiting.pop("tool"), frame.get("result")
        if result:
            say(method="item/completed", params={"threadId": thread, "turnId": turn, "item": {
                "type": "dynamicToolCall", "id": "c", "tool": "echo", "status": "completed",
                "contentItems": result["contentItems"]}})
        delta(thread, turn, result["contentItems"][0]["text"] if result else frame["error"]["message"])
        end(thread, turn)
    elif "id" in frame:
        say(id=frame["id"], error={"code": -32600, "message": "unknown variant"})
"""


async def server(stable: Stable, script: str = APP_SERVER) -> Transport:
    return await stable.start(stable.plan(CODEX, ProviderSettings(command=(sys.executable, "-c", script))))


async def test_a_turn_ends_by_its_own_event(stable: Stable) -> None:
    transport = await server(stable)
    assert (transport.info.name, transport.info.version) == ("codex", "1.2.3")
    session = await transport.open(stable.order())
    assert session.model == "m"
    assert await say(session, "hello") == "hello"
    assert await say(session, "again") == "again"
    assert await transport.probe()


async def test_w40c_what_is_late_after_an_interrupt_is_dropped(stable: Stable) -> None:
    session = await (await server(stable)).open(stable.order())
    turn = await session.prompt([TextPart("wait")])
    turn.cancel()
    assert end_of(await hear(turn)) == Finished(Reason.CANCELLED)
    assert await say(session, "next") == "next"


async def test_w02_a_native_tool_call_reaches_the_session_that_its_thread_names(stable: Stable) -> None:
    transport = await server(stable)
    tickets = [PlainTicket("first"), PlainTicket("second")]
    first, second = [await transport.open(stable.order(ticket=ticket)) for ticket in tickets]
    events = await hear(await second.prompt([TextPart("call")]))
    assert text_of(events) == "second:c"
    assert any(isinstance(event, ToolEnded) for event in events)
    assert (tickets[0].calls, tickets[1].calls) == ([], [("echo", {})])
    assert await say(first, "call foreign") == "no such session"
    assert (tickets[0].calls, transport.strays) == ([], 1)


async def test_an_unfinished_tool_call_is_answered_when_its_turn_is_cancelled(stable: Stable) -> None:
    class Endless(PlainTicket):
        async def call(self, name: str, arguments: JsonObject, *, call_id: str) -> Answer:
            self.calls.append((name, arguments))
            await asyncio.Event().wait()
            return Answer([])

    ticket = Endless("t")
    transport = await server(stable)
    session = await transport.open(stable.order(ticket=ticket))
    turn = await session.prompt([TextPart("call")])
    await eventually(lambda: ticket.calls)
    await session.close()
    assert turn.finished is not None
    assert await say(await transport.open(stable.order()), "other") == "other"


async def test_m09_a_close_is_both_verbs(stable: Stable) -> None:
    transport = await server(stable)
    assert await (await transport.open(stable.order())).close() is True
    session = await transport.open(stable.order())
    assert await say(session, "closed") == "thread/unsubscribe thread/archive"


async def test_a_refused_turn_is_an_unknown_session(stable: Stable) -> None:
    session = await (await server(stable)).open(stable.order())
    end = end_of(await hear(await session.prompt([TextPart("fail")])))
    assert end.reason is Reason.FAILED
    assert session.sealed is not None


async def test_an_acp_agent_is_no_app_server(stable: Stable) -> None:
    script = "import json\nprint(json.dumps({'id': 1, 'result': {'protocolVersion': 1}}), flush=True)\ninput()\ninput()"
    with pytest.raises(AgentStartFailed, match="no codex app-server") as caught:
        await server(stable, script)
    assert caught.value.phase is Phase.HANDSHAKE
