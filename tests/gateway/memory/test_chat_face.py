"""What a provider hears of a conversation on a chat face: commands, turns, and the tools of the agent."""

import asyncio
import json
import logging
import os
import re
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ostler.pool import TransportPool
from tests.support.chats import Chat
from tests.support.memory import Call, Prov, making
from tests.support.served import Served, serving
from tests.support.talks import talked
from tests.support.waiting import eventually, soon

CALLS = 200


class Marked(Prov):
    """What it knows names the session that asked."""

    def prefetch(self, question: str, *, session_id: str, user: str) -> str:
        super().prefetch(question, session_id=session_id, user=user)
        return f"recalled for {session_id}"


@asynccontextmanager
async def recording(folder: Path, **settings: Any) -> AsyncIterator[tuple[Served, Prov]]:
    """A gateway whose memory is PROV alone."""
    prov = Prov()
    async with serving(folder / "data", memory={"prov": making(prov)}, **settings) as served:
        yield served, prov


async def heard(prov: Prov, *what: str, times: int = 1) -> list[Call]:
    """These calls, when there are so many."""
    await eventually(lambda: len(prov.calls(*what)) >= times, f"{times} calls of {what}")
    return prov.calls(*what)


async def test_b05_b14_new_and_reset_end_a_session_with_its_transcript_and_name_both_ids(tmp_path: Path) -> None:
    async with recording(tmp_path) as (served, prov):
        chat = Chat(served)
        p = await talked(chat, "u1", "u2")
        q = (await chat.said("/new"))["session_id"]
        await chat.said("u3")
        r = (await chat.said("/reset"))["session_id"]
        calls = await heard(prov, "on_session_end", "on_session_switch", times=4)
        assert [(call.what, call.session) for call in calls] == [
            ("on_session_end", p),
            ("on_session_switch", q),
            ("on_session_end", q),
            ("on_session_switch", r),
        ]
        assert [said.text for said in calls[0].facts["transcript"]] == ["u1", "echo: u1", "u2", "echo: u2"]
        assert [said.role for said in calls[0].facts["transcript"]] == ["user", "assistant"] * 2
        assert calls[1].facts == {"parent_session_id": p, "reset": True, "reason": "new_session"}
        assert calls[3].facts == {"parent_session_id": q, "reset": True, "reason": "new_session"}
        assert r == chat.routed()


async def test_b06_b10_b26_resume_is_known_before_the_first_prefetch_of_the_target(tmp_path: Path) -> None:
    async with recording(tmp_path) as (served, prov):
        chat = Chat(served)
        t = await talked(chat, "apple")
        await chat.said("/title orchard")
        await chat.said("/new")
        p = await talked(chat, "pear")
        gate = prov.wait_in("sync_turn")
        await chat.said("plum")
        await prov.until_in("sync_turn")
        await chat.said("/resume orchard")
        answering = asyncio.create_task(chat.text("!recall"))
        gate.set()
        assert await answering == "apple"
        await heard(prov, "queue_prefetch", times=4)
        switch = prov.calls("on_session_switch")[-1]
        assert (switch.session, switch.facts) == (t, {"parent_session_id": p, "reset": False, "reason": "resume"})
        last = [call for call in prov.journal if call.facts.get("question") == "!recall"]
        assert {call.what for call in last} == {"on_turn_start", "prefetch", "sync_turn", "queue_prefetch"}
        assert {call.session for call in last} == {t}
        (fetched,) = [call for call in last if call.what == "prefetch"]
        assert prov.journal.index(fetched) > prov.journal.index(switch)
        assert [(call.facts["question"], call.session) for call in prov.calls("sync_turn")] == [
            ("apple", t),
            ("pear", p),
            ("plum", p),
            ("!recall", t),
        ]


async def test_w12_what_a_hook_and_a_prefetch_bring_after_a_rotation_stays_with_the_session_that_was_left(
    tmp_path: Path,
) -> None:
    prov = Marked()
    gates = [prov.wait_in("sync_turn"), prov.wait_in("prefetch")]
    gates[1].set()
    async with serving(tmp_path / "data", memory={"prov": making(prov)}, memory__prefetch=60) as served:
        chat, (worker,) = Chat(served), served.gateway.memories._workers
        p = (await chat.said("zero"))["session_id"]
        await prov.until_in("sync_turn")
        gates[1] = prov.wait_in("prefetch")
        left = asyncio.create_task(chat.said("never asked"))
        await prov.until_in("prefetch")
        for verb in ("/undo", "/branch", "/compress"):
            await chat.said(verb)
            assert chat.routed() == p
        q = (await soon(chat.said("/new"), "the reply, while both are held"))["session_id"]
        assert (await soon(left, "the end of the turn that was left"))["status"] == "cancelled"
        await soon(chat.said("first"), "a turn while the prefetch of the old session has not come back")
        for gate in gates:
            gate.set()
        await eventually(lambda: worker._readers.abandoned == 0, "the late prefetch comes back")
        await chat.said("second")
        await heard(prov, "queue_prefetch", times=3)
    zero, first, second = served.prompts()
    assert f"recalled for {p}" in zero
    assert first == "first"
    assert f"recalled for {q}" in second
    assert p not in second
    synced = [(call.facts["question"], call.session) for call in prov.calls("sync_turn")]
    assert synced == [("zero", p), ("first", q), ("second", q)]
    assert [call.session for call in prov.calls("queue_prefetch")] == [p, q, q]


async def test_b07_branch_names_the_original_as_the_store_does(tmp_path: Path) -> None:
    async with recording(tmp_path) as (served, prov):
        chat = Chat(served)
        p = await talked(chat, "u1")
        await chat.said("/branch")
        b = chat.routed()
        (call,) = [each for each in await heard(prov, "on_session_switch") if each.session == b]
        assert call.facts == {"parent_session_id": p, "reset": False, "reason": "branch"}
        assert served.rows("select parent_id from sessions where id = ?", b) == [(p,)]


async def test_b08_b17_b25_compress_is_told_once_and_its_prompt_is_nobodys_words(tmp_path: Path) -> None:
    async with recording(tmp_path) as (served, prov):
        chat = Chat(served)
        p = await talked(chat, "w1")
        await chat.said("/compress")
        await talked(chat, "w2", "w3")
        asked = len(served.prompts())
        await chat.said("/compress")
        child = chat.routed()
        assert len(served.prompts()) == asked + 1
        await chat.said("w4")
        await heard(prov, "queue_prefetch", times=4)
        told = [call for call in prov.calls("on_session_switch") if call.facts.get("reason") == "compression"]
        facts = {"parent_session_id": p, "reset": False, "reason": "compression"}
        assert [(call.session, call.facts) for call in told] == [(child, facts)]
        words = ["w1", "w2", "w3", "w4"]
        for hook in ("on_turn_start", "prefetch", "sync_turn", "queue_prefetch"):
            assert [call.facts["question"] for call in prov.calls(hook)] == words


async def test_b09_undo_is_a_rewind_of_the_same_session(tmp_path: Path) -> None:
    async with recording(tmp_path) as (served, prov):
        chat = Chat(served)
        p = await talked(chat, "u1", "u2")
        await chat.said("/undo")
        calls = await heard(prov, "on_session_switch")
        assert [(call.session, call.facts) for call in calls] == [(p, {"rewound": True})]


async def test_b13_new_does_not_wait_for_the_end_hook(tmp_path: Path) -> None:
    async with recording(tmp_path) as (served, prov):
        chat = Chat(served)
        p = await talked(chat, "u1")
        gate = prov.wait_in("on_session_end")
        q = (await soon(chat.said("/new"), "the reply, while the hook is held"))["session_id"]
        await prov.until_in("on_session_end")
        assert prov.calls("on_session_switch") == []
        gate.set()
        calls = await heard(prov, "on_session_end", "on_session_switch", times=2)
        assert [(call.what, call.session) for call in calls] == [("on_session_end", p), ("on_session_switch", q)]


async def test_b23_rb7_two_sessions_on_one_process_touch_their_own_store_in_step(tmp_path: Path) -> None:
    async with recording(tmp_path) as (served, prov):
        meeting = threading.Barrier(2, timeout=300)
        prov.acts["touch"] = meeting.wait
        orders = "\n".join(f"!call prov_touch {json.dumps({'number': number})}" for number in range(CALLS))
        chats = [Chat(served, "one"), Chat(served, "two")]
        answers = await asyncio.gather(*(chat.said(orders) for chat in chats))
        for chat, answer in zip(chats, answers, strict=True):
            session = answer["session_id"]
            touched = [call for call in prov.calls("touch") if call.session == session]
            assert [call.facts["number"] for call in touched] == list(range(CALLS))
            assert {call.facts["called"] for call in touched} == {session}
            assert {call.user for call in touched} == {f"/{chat.key}"}
            assert answer["text"].count(session) == CALLS
        assert len(prov.calls("touch")) == 2 * CALLS
        assert served.starts() == 1


async def test_b33_without_configuration_a_fact_is_offered_to_the_same_person_only(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", memory__enabled=True) as served:
        anna, bert = Chat(served, "anna"), Chat(served, "bert")
        await anna.said("My cat is called Miso and hates baths")
        await anna.said("thanks")
        noted = await anna.text('!call remember {"fact": "The door code is 4711"}')
        (number,) = re.findall(r"note (\d+)", noted)
        for chat in (anna, bert):
            await chat.said("/new")
            await chat.said("what does my cat hate, baths?")
            assert ("Miso" in served.prompts()[-1]) is (chat is anna)
            await chat.said("the code please")
            assert ("The door code is 4711" in served.prompts()[-1]) is (chat is anna)
            assert ("The door" in await chat.text('!call recall {"query": "door"}')) is (chat is anna)
        assert "no note" in await bert.text(f'!call forget {{"note": {number}}}')
        assert "forgotten" in await anna.text(f'!call forget {{"note": {number}}}')
        assert '"kind": "fact"' not in await anna.text('!call recall {"query": "door code"}')


async def test_a_session_without_memory_gets_no_tools_of_it(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        assert await Chat(served).text("none\n!tools") == "echo: none\n"


async def test_g07_a_seat_that_was_kept_ready_has_the_tools_of_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ostler.turns")
    async with serving(tmp_path / "data", memory__enabled=True, pool__prewarm=True) as served:
        pool = served.gateway.pool
        await eventually(lambda: pool.snapshot().core.census.parked == 1, "the seat is ready")
        opened = len(served.frames("session/new"))
        assert (await Chat(served).text("!tools")).split() == ["forget", "recall", "remember"]
        (record,) = [record for record in caplog.records if record.name == "ostler.turns"]
        assert (vars(record)["warmth"], vars(record)["session_new"]) == ("parked", 0)
        assert opened == 1


async def test_e16_a_turn_whose_agent_dies_while_its_prompt_is_made_is_put_to_another_one(tmp_path: Path) -> None:
    async with recording(tmp_path, memory__prefetch=60) as (served, prov):
        chat, pool = Chat(served), served.gateway.pool
        await chat.said("one")
        (process,) = pool.snapshot().processes
        gate = prov.wait_in("prefetch")
        asked = asyncio.create_task(chat.said("two"))
        await prov.until_in("prefetch")
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        await eventually(lambda: process.pid not in [one.pid for one in pool.snapshot().processes], "its end")
        gate.set()
        answer = await soon(asked, "the answer of another agent")
    assert (answer["status"], answer["text"]) == ("completed", "echo: two")


def all_gone(pool: TransportPool, pids: set[int]) -> bool:
    return pids.isdisjoint(one.pid for one in pool.snapshot().processes)


async def test_e16_when_the_second_one_dies_so_too_the_answer_says_what_ended(tmp_path: Path) -> None:
    async with recording(tmp_path, memory__prefetch=60) as (served, prov):
        chat, pool = Chat(served), served.gateway.pool
        await chat.said("one")
        asked = None
        for _ in range(2):
            gate = prov.wait_in("prefetch")
            asked = asked or asyncio.create_task(chat.send("two"))
            await prov.until_in("prefetch")
            pids = {one.pid for one in pool.snapshot().processes if one.pid is not None}
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            await eventually(partial(all_gone, pool, pids), "their end")
            gate.set()
        assert asked is not None
        answer = await soon(asked, "an answer")
    assert answer.status_code == 502
    assert "ended by signal 9" in answer.json()["error"]["message"]
