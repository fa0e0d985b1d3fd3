"""An agent that asks, says or shows far too much of something: it is told so, and the others on it go on."""

import asyncio

from ostler.pool.agent.requests import TOO_MANY_REQUESTS
from ostler.pool.events import (
    Finished,
    MessageDropped,
    PermissionAnswered,
    PermissionAsked,
    StopReason,
    Text,
    ToolStarted,
    TurnEvent,
)
from ostler.pool.launch.settings import ProviderSettings
from ostler.pool.permission import deny
from ostler.pool.ports import PermissionChoice
from ostler.pool.prompt import TextPart
from ostler.wire.json import VALUES_LIMIT
from ostler.wire.lines import DEFAULT_LIMIT
from tests.support.transport_harness import TransportHarness, end_of, hear, say, text_of
from tests.support.waiting import within

ASKED = 300
LIMIT = ProviderSettings().open_requests
QUESTIONS = f"""
options = [{{"optionId": "y", "name": "Yes", "kind": "allow_once"}}]
told = []
for method, frame, session in frames("session/prompt"):
    if method == "session/prompt":
        prompt = frame
        for number in range({ASKED}):
            asked = {{"sessionId": session, "options": options, "toolCall": {{"toolCallId": f"c{{number}}"}}}}
            say(id=number, method="session/request_permission", params=asked)
    elif method is None:
        told.append(frame)
        if "error" in frame and len(told) == {ASKED - LIMIT}:
            text("s1", "the rest is refused; ")
        if len(told) == {ASKED}:
            codes = [str(each["error"]["code"]) for each in told if "error" in each]
            text("s1", f"{{len(codes)}} refused with {{' '.join(sorted(set(codes)))}}")
            done(prompt)
"""
FLOODS = """
for method, frame, session in frames("session/prompt"):
    if method == "session/prompt":
        words = frame["params"]["prompt"][0]["text"]
        if words == "line":
            text(session, "x" * %d)
        elif words == "values":
            update(session, "tool_call", toolCallId="v", title="v", rawInput=[0] * %d)
        text(session, "after " + words)
        done(frame)
"""


async def test_n31_questions_without_end_wait_up_to_their_limit_and_the_rest_are_refused(
    harness: TransportHarness,
) -> None:
    transport = await harness.scripted(QUESTIONS)
    refused, peak, waiting = asyncio.Event(), 0, 0

    async def ponder(session_id: str, asked: PermissionAsked) -> PermissionChoice:
        """Nothing is answered before the rest is refused."""
        nonlocal peak, waiting
        waiting += 1
        peak = max(peak, waiting)
        await refused.wait()
        waiting -= 1
        return await deny(session_id, asked)

    session = await transport.open(harness.order(ponder))
    events = list[TurnEvent]()
    async with within(300, "the refusal of what is too much"):
        async for event in await session.prompt([TextPart("go")]):
            events.append(event)
            if isinstance(event, Text):
                refused.set()
    asked = [event for event in events if isinstance(event, PermissionAsked)]
    answered = [event for event in events if isinstance(event, PermissionAnswered)]
    assert end_of(events).reason is StopReason.DONE
    assert peak == LIMIT
    assert sorted(event.id for event in asked) == sorted(event.id for event in answered)
    assert text_of(events).endswith(f"; {ASKED - LIMIT} refused with {TOO_MANY_REQUESTS}")
    assert len(asked) == LIMIT


async def test_n31_a_line_over_the_limit_is_lost_with_a_word_to_the_turn_it_was_for(harness: TransportHarness) -> None:
    transport = await harness.scripted(FLOODS % (DEFAULT_LIMIT, VALUES_LIMIT))
    loud, quiet = [await transport.open(harness.order()) for _ in range(2)]
    turn = await loud.prompt([TextPart("line")])
    assert await say(quiet, "hello") == "after hello"
    events = await hear(turn)
    (dropped,) = [event for event in events if isinstance(event, MessageDropped)]
    assert f"over the limit of {DEFAULT_LIMIT} bytes" in dropped.why
    assert text_of(events) == "after line"
    assert end_of(events) == Finished(StopReason.DONE)


async def test_n31_a_message_of_too_many_values_is_lost_with_a_word(harness: TransportHarness) -> None:
    transport = await harness.scripted(FLOODS % (DEFAULT_LIMIT, VALUES_LIMIT))
    session = await transport.open(harness.order())
    events = await hear(await session.prompt([TextPart("values")]))
    assert sum(isinstance(event, MessageDropped) for event in events) == 1
    assert not any(isinstance(event, ToolStarted) for event in events)
    assert text_of(events) == "after values"
