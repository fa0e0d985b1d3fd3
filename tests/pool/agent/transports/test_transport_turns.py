"""Turns: one at a time, one end each, and nothing of one in the next."""

import asyncio
import dataclasses
import gc
import re

import pytest

from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.session_events import SessionState
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.errors import (
    AgentFault,
    AgentSilent,
    PromptUnsupported,
    RecordIncomplete,
    SessionBusy,
    SessionEnded,
    TransportLost,
    UnknownSession,
)
from ostler.pool.events import (
    Finished,
    PermissionAnswered,
    PermissionAsked,
    StopReason,
    Text,
    Thought,
)
from ostler.pool.order import LastTexts
from ostler.pool.permission import allow, ask, deny
from ostler.pool.ports import PermissionChoice
from ostler.pool.prompt import AudioPart, ImagePart, TextPart
from ostler.pool.provider import FaultReading
from ostler.pool.providers.demo import PROVIDER as DEMO
from tests.support.transport_harness import SCRIPTED, TransportHarness, end_of, hear, say, text_of
from tests.support.waiting import eventually


async def prompt(session: AgentSession, words: str) -> AgentTurn:
    return await session.prompt([TextPart(words)])


async def opened(harness: TransportHarness, script: str) -> AgentSession:
    return await (await harness.scripted(script)).open(harness.order())


async def test_events_come_in_order_and_end_once(harness: TransportHarness) -> None:
    session = await (await harness.demo()).open(harness.order())
    events = await hear(await prompt(session, "!think hm\n!stream 500"))
    assert events[0] == Thought("hm")
    assert text_of(events) == "".join(f"t{number} " for number in range(500))
    assert end_of(events).reason is StopReason.DONE


async def test_images_arrive_and_sounds_are_refused_unsent(harness: TransportHarness) -> None:
    transport = await harness.demo()
    session = await transport.open(harness.order())
    events = await hear(await session.prompt([TextPart("!image"), ImagePart.of(b"12345", "image/png")]))
    assert "5" in text_of(events)
    with pytest.raises(PromptUnsupported):
        await session.prompt([AudioPart("eA==", "audio/wav")])
    assert await say(session, "still good") == "echo: still good"


async def test_m03_a_second_prompt_is_refused_and_never_sent(harness: TransportHarness) -> None:
    session = await (await harness.demo()).open(harness.order())
    turn = await prompt(session, "!sleep 30")
    with pytest.raises(SessionBusy):
        await prompt(session, "second")
    turn.cancel()
    assert end_of(await hear(turn)).reason is StopReason.CANCELLED
    sent = [frame for frame in harness.frames() if frame.get("method") == "session/prompt"]
    assert len(sent) == 1


async def test_w04_a_cancel_stops_one_session_only(harness: TransportHarness) -> None:
    transport = await harness.demo()
    first, second = [await transport.open(harness.order()) for _ in range(2)]
    long, short = await prompt(first, "!sleep 30"), await prompt(second, "!sleep 0.2\ndone")
    await first.cancel()
    assert long.finished is not None
    assert long.finished.reason is StopReason.CANCELLED
    assert text_of(await hear(short)).strip() == "echo: done"


async def test_w20_leaving_the_loop_early_cancels_the_turn(harness: TransportHarness) -> None:
    session = await (await harness.demo()).open(harness.order())
    turn = await prompt(session, "first\n!sleep 30")
    async for event in turn:
        assert isinstance(event, Text)
        break
    gc.collect()
    assert (await turn.ended()).reason is StopReason.CANCELLED
    assert await say(session, "next") == "echo: next"


async def test_w20_leaving_the_context_cancels_the_turn(harness: TransportHarness) -> None:
    session = await (await harness.demo()).open(harness.order())
    async with await prompt(session, "!sleep 30") as turn:
        pass
    assert (await turn.ended()).reason is StopReason.CANCELLED


async def test_a_turn_is_iterated_once(harness: TransportHarness) -> None:
    turn = await prompt(await (await harness.demo()).open(harness.order()), "x")
    await hear(turn)
    with pytest.raises(RuntimeError, match="once"):
        aiter(turn)


async def test_w40a_updates_behind_the_reply_belong_to_the_turn_where_declared(harness: TransportHarness) -> None:
    script = """
for method, frame, session in frames():
    text(session, "early "); done(frame); time.sleep(0.02); text(session, "late")
"""
    provider = dataclasses.replace(SCRIPTED, late_updates=0.5)
    session = await (await harness.scripted(script, provider=provider)).open(harness.order())
    assert await say(session, "x") == "early late"
    assert session.late == 0


async def test_w40b_updates_between_turns_are_counted_and_enter_none(harness: TransportHarness) -> None:
    script = """
for method, frame, session in frames():
    text(session, "answer"); done(frame); text(session, "late")
"""
    session = await opened(harness, script)
    assert await say(session, "one") == "answer"
    await eventually(lambda: session.late == 1)
    assert await say(session, "two") == "answer"


async def test_w40c_late_pieces_after_a_cancel_do_not_enter_the_next_turn(harness: TransportHarness) -> None:
    session = await (await harness.demo()).open(harness.order())
    turn = await prompt(session, "!late")
    assert await anext(aiter(turn)) == Text("waiting")
    await session.cancel()
    assert turn.finished is not None
    assert await say(session, "next") == "echo: next"
    assert session.late == 3


async def test_w40d_a_cancel_that_never_settles_seals_the_session(harness: TransportHarness) -> None:
    transport = await harness.demo(cancel_grace=0.2)
    session, other = [await transport.open(harness.order()) for _ in range(2)]
    turn = await prompt(session, "!hang")
    await eventually(lambda: harness.asked("session/prompt"))
    await session.cancel()
    assert turn.finished is not None
    assert turn.finished.reason is StopReason.CANCELLED
    assert session.sealed is not None
    assert "0.2 s" in session.sealed
    with pytest.raises(SessionEnded):
        await prompt(session, "x")
    assert await say(other, "well") == "echo: well"


async def test_w40c_a_cancel_while_a_prompt_waits_to_be_sent_ends_it_unsent(harness: TransportHarness) -> None:
    session = await (await harness.demo(provider=dataclasses.replace(DEMO, cancel_quiet=60.0))).open(harness.order())
    await prompt(session, "!sleep 30")
    await session.cancel()
    waiting = asyncio.create_task(prompt(session, "second"))
    await asyncio.sleep(0)
    assert session.state is SessionState.WAITING
    await session.cancel()
    assert (await waiting).finished == Finished(StopReason.CANCELLED)
    assert session.turn is None
    assert harness.asked("session/prompt") == 1


async def test_a_session_that_is_being_closed_accepts_no_prompt(harness: TransportHarness) -> None:
    session = await (await harness.demo(cancel_grace=0.5)).open(harness.order())
    turn = await prompt(session, "!hang")
    closing = asyncio.create_task(session.close())
    await eventually(lambda: session.sealed)
    with pytest.raises(SessionEnded):
        await prompt(session, "x")
    await closing
    assert turn.finished is not None
    assert turn.finished.reason is StopReason.CANCELLED
    assert session.state is SessionState.CLOSED


async def test_m04_an_error_may_mean_cancelled_where_declared(harness: TransportHarness) -> None:
    script = """
asked = None
for method, frame, session in frames():
    if method == "session/cancel":
        refuse(asked, -32603, "Internal error")
    else:
        asked = frame; text(session, "x")
"""
    provider = dataclasses.replace(SCRIPTED, faults=FaultReading(cancelled=frozenset({-32603})))
    session = await (await harness.scripted(script, provider=provider)).open(harness.order())
    turn = await prompt(session, "x")
    async for event in turn:
        if isinstance(event, Text):
            turn.cancel()
    assert turn.finished == Finished(StopReason.CANCELLED)


async def test_a_failed_prompt_says_what_the_agent_said(harness: TransportHarness) -> None:
    script = """
for method, frame, session in frames():
    refuse(frame, -32603, "Internal error", data={"details": "quota exceeded"})
"""
    session = await opened(harness, script)
    end = end_of(await hear(await prompt(session, "x")))
    assert end.reason is StopReason.FAILED
    assert isinstance(end.cause, AgentFault)
    assert "quota exceeded" in end.detail
    assert session.sealed is None


async def test_w41a_a_session_the_agent_forgot_is_named_and_sealed(harness: TransportHarness) -> None:
    script = """
for method, frame, session in frames():
    refuse(frame, -32002, "Session not found")
"""
    session = await opened(harness, script)
    end = end_of(await hear(await prompt(session, "x")))
    assert isinstance(end.cause, UnknownSession)
    with pytest.raises(SessionEnded):
        await prompt(session, "x")


async def test_a_silent_agent_is_given_up_and_told_to_stop(harness: TransportHarness) -> None:
    transport = await harness.demo(prompt_inactivity=0.2, cancel_grace=5)
    session = await transport.open(harness.order())
    end = end_of(await hear(await prompt(session, "!sleep 30")))
    assert end.reason is StopReason.FAILED
    assert isinstance(end.cause, AgentSilent)
    await eventually(lambda: session.turn is None)
    assert await say(session, "next") == "echo: next"


async def test_a_slow_consumer_loses_nothing_and_stops_nobody(harness: TransportHarness) -> None:
    transport = await harness.demo()
    slow, quick = [await transport.open(harness.order()) for _ in range(2)]
    turn = await prompt(slow, "!stream 20000")
    assert await say(quick, "hello") == "echo: hello"
    await turn.ended()
    events = await hear(turn)
    assert text_of(events) == "".join(f"t{number} " for number in range(20000))
    assert len(events) < 1000


async def test_a_consumer_too_far_behind_is_failed_and_the_agent_is_stopped(harness: TransportHarness) -> None:
    script = """
big = "x" * (8 << 20)
for method, frame, session in frames():
    if method == "session/prompt":
        for _ in range(9):
            text(session, big)
        asked = frame
    elif method == "session/cancel":
        done(asked, "cancelled")
"""
    session = await opened(harness, script)
    turn = await prompt(session, "x")
    end = await turn.ended()
    assert end.reason is StopReason.FAILED
    assert "too slow" in end.detail
    await eventually(lambda: session.turn is None)
    assert session.sealed is None


async def test_w03b_updates_of_unknown_sessions_reach_nobody(harness: TransportHarness) -> None:
    script = """
for method, frame, session in frames():
    text("someone else", "secret"); text(session, "mine"); done(frame)
"""
    transport = await harness.scripted(script)
    session = await transport.open(harness.order())
    assert await say(session, "x") == "mine"
    assert (transport.strays, session.late) == (1, 0)


async def test_permission_is_asked_and_answered(harness: TransportHarness) -> None:
    transport = await harness.demo()
    yes = await transport.open(harness.order(allow))
    no = await transport.open(harness.order(deny))
    events = await hear(await prompt(yes, "!ask may I"))
    asked, answered = events[0], events[1]
    assert isinstance(asked, PermissionAsked)
    assert isinstance(answered, PermissionAnswered)
    assert (answered.id, answered.by) == (asked.id, "allow")
    assert "allow" in text_of(events)
    assert "reject" in text_of(await hear(await prompt(no, "!ask may I")))


async def test_w05_two_pending_approvals_are_answered_crosswise(harness: TransportHarness) -> None:
    waiting: dict[str, asyncio.Future[str]] = {}

    async def person(session: str, asked: PermissionAsked) -> str:
        waiting[session] = asyncio.get_running_loop().create_future()
        kind = await waiting[session]
        return next(option.id for option in asked.options if option.kind == kind)

    transport = await harness.demo()
    policy = ask(person, deadline=30)
    first, second = [await transport.open(harness.order(policy)) for _ in range(2)]
    turns = [await prompt(session, "!ask x") for session in (first, second)]
    await eventually(lambda: len(waiting) >= 2)
    waiting[second.id].set_result("reject_once")
    assert "reject" in text_of(await hear(turns[1]))
    waiting[first.id].set_result("allow_once")
    assert "allow" in text_of(await hear(turns[0]))


async def silence(_session: str, _asked: PermissionAsked) -> str | None:
    await asyncio.Event().wait()
    return None


async def test_w39b_a_cancel_settles_the_pending_permission(harness: TransportHarness) -> None:
    session = await (await harness.demo()).open(harness.order(ask(silence, deadline=60)))
    turn = await prompt(session, "!ask x")
    seen: list[object] = []
    async for event in turn:
        seen.append(event)
        if isinstance(event, PermissionAsked):
            turn.cancel()
    assert isinstance(seen[1], PermissionAnswered)
    assert (seen[1].option, seen[1].by) == (None, "cancel")
    assert turn.finished is not None
    assert turn.finished.reason is StopReason.CANCELLED
    assert session.sealed is None


async def test_w39c_silence_chooses_the_reject_option(harness: TransportHarness) -> None:
    session = await (await harness.demo()).open(harness.order(ask(silence, deadline=0.05)))
    events = await hear(await prompt(session, "!ask x"))
    assert [event.by for event in events if isinstance(event, PermissionAnswered)] == ["timeout"]
    assert "reject" in text_of(events)


async def test_w39a_a_permission_for_a_session_we_do_not_hold_is_refused_at_once(harness: TransportHarness) -> None:
    script = """
asked = None
for method, frame, session in frames():
    if method == "session/prompt":
        asked = frame, session
        say(id=9, method="session/request_permission", params={"sessionId": "child",
            "toolCall": {"toolCallId": "c"}, "options": [{"optionId": "y", "name": "y", "kind": "allow_once"}]})
    elif frame.get("id") == 9:
        text(asked[1], frame["result"]["outcome"]["outcome"]); done(asked[0])
"""
    assert await say(await opened(harness, script), "x") == "cancelled"


async def test_a_policy_that_fails_does_not_leave_the_agent_waiting(
    harness: TransportHarness, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_session: str, _asked: PermissionAsked) -> PermissionChoice:
        raise ZeroDivisionError

    session = await (await harness.demo()).open(harness.order(broken))
    events = await hear(await prompt(session, "!ask x"))
    assert [event.by for event in events if isinstance(event, PermissionAnswered)] == ["error"]
    await eventually(lambda: "ZeroDivisionError" in caplog.text)


async def test_w41d_w41f_a_loaded_session_tells_its_past_once_and_answers(harness: TransportHarness) -> None:
    first = await harness.demo()
    session = await first.open(harness.order())
    await say(session, "mark-one")
    memo = session.memo
    await first.close()
    again = await (await harness.demo()).load(memo, harness.order())
    assert (session.recalled, again.recalled) == (0, 2)
    assert await say(again, "!recall") == "mark-one"
    assert again.memo.opened_at == memo.opened_at


async def test_w41d_a_session_whose_record_lost_its_last_turn_is_not_believed(harness: TransportHarness) -> None:
    first = await harness.demo()
    session = await first.open(harness.order())
    await say(session, "mark-one")
    [record] = (harness.folder / "state").iterdir()
    whole = record.read_text()
    await say(session, "mark-two")
    memo = session.memo
    await first.close()
    record.write_text(whole)
    again = await harness.demo()
    with pytest.raises(RecordIncomplete, match="without the last that was said"):
        await again.load(memo, harness.order())
    assert (again.sessions, again.leaked) == (0, 0)


async def test_w41d_an_answer_that_was_cut_by_its_limit_is_to_be_remembered(harness: TransportHarness) -> None:
    script = """
for _, frame, session in frames("session/prompt"):
    text(session, "as much as I may say"); done(frame, "max_tokens")
"""
    session = await opened(harness, script)
    heard = await hear(await prompt(session, "tell me everything"))
    assert end_of(heard).reason is StopReason.LIMIT
    assert session.memo.said == LastTexts("tellmeeverything", answered=True)


async def test_w41d_an_agent_that_dies_while_it_repeats_is_not_said_to_have_forgotten(
    harness: TransportHarness,
) -> None:
    script = """
for method, frame, session in frames():
    if method == "session/load":
        answer(frame, {})
        update(session, "user_message_chunk", content={"type": "text", "text": "the beginning"})
        sys.exit(3)
    elif method == "session/prompt":
        text(session, "well"); done(frame)
"""
    provider = dataclasses.replace(SCRIPTED, replay_quiet=0.3)
    writer = await (await harness.scripted(script, provider=provider)).open(harness.order())
    await say(writer, "what is looked for")
    with pytest.raises(TransportLost):
        await (await harness.scripted(script, provider=provider)).load(writer.memo, harness.order())


async def test_w41d_an_agent_that_repeats_late_or_with_pauses_is_heard_out(harness: TransportHarness) -> None:
    script = """
for method, frame, session in frames():
    if method == "session/load":
        answer(frame, {}); time.sleep(0.35)
        update(session, "user_message_chunk", content={"type": "text", "text": "hello"}); time.sleep(0.35)
        text(session, "well")
    elif method == "session/prompt":
        text(session, "well"); done(frame)
"""
    provider = dataclasses.replace(SCRIPTED, replay_quiet=0.1)
    writer = await (await harness.scripted(script, provider=provider)).open(harness.order())
    await say(writer, "hello")
    session = await (await harness.scripted(script, provider=provider)).load(writer.memo, harness.order())
    assert (session.recalled, session.late) == (2, 0)


async def test_a_replay_that_is_told_after_the_answer_stays_out_of_the_first_turn(harness: TransportHarness) -> None:
    script = """
for method, frame, session in frames():
    if method == "session/load":
        answer(frame, {}); time.sleep(0.05)
        update(session, "user_message_chunk", content={"type": "text", "text": "<noise> of the agent"})
        text(session, "old answer")
    elif method == "session/prompt":
        text(session, "new answer"); done(frame)
"""
    provider = dataclasses.replace(SCRIPTED, replay_quiet=0.3, replays_noise=re.compile("<noise>"))
    writer = await (await harness.scripted(script, provider=provider)).open(harness.order())
    session = await (await harness.scripted(script, provider=provider)).load(writer.memo, harness.order())
    assert (session.recalled, session.late) == (1, 0)
    assert await say(session, "x") == "new answer"


async def test_w39b_the_cancel_is_said_before_the_pending_question_is_answered(harness: TransportHarness) -> None:
    session = await (await harness.demo()).open(harness.order(ask(silence, deadline=60)))
    turn = await prompt(session, "!ask x")
    async for event in turn:
        if isinstance(event, PermissionAsked):
            turn.cancel()
    await eventually(lambda: any("result" in frame for frame in harness.frames()))
    frames = harness.frames()
    cancel = next(at for at, frame in enumerate(frames) if frame.get("method") == "session/cancel")
    answer = next(at for at, frame in enumerate(frames) if "outcome" in (frame.get("result") or {}))
    assert cancel < answer


async def test_an_endless_error_message_is_cut(harness: TransportHarness) -> None:
    script = "for _, frame, _ in frames('session/prompt'): refuse(frame, -32603, 'no' * 500_000)"
    transport = await harness.scripted(script)
    session = await transport.open(harness.order())
    end = end_of(await hear(await session.prompt([TextPart("hello")])))
    assert isinstance(end.cause, AgentFault)
    assert len(str(end.cause)) < 3_000
