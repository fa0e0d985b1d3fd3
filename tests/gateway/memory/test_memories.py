"""What providers are told: everything, once, in order, of the right session, whatever the others do."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from ostler.bridge.tool import Tool
from ostler.gateway.memory.provider import MemoryProvider, Spoken
from ostler.gateway.memory.provider_worker import MOST_WAITING
from ostler.gateway.model.observers import SwitchReason
from tests.support.memory import Prov, message, remembering
from tests.support.waiting import eventually, soon

SWITCHES = [
    (SwitchReason.NEW, True),
    (SwitchReason.RESUME, False),
    (SwitchReason.BRANCH, False),
    (SwitchReason.COMPRESSION, False),
]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_b01_a_provider_without_a_switch_hook_is_served_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Plain(MemoryProvider):
        """Nothing of its own."""

    async with remembering(tmp_path, Plain()) as running:
        for reason, _ in SWITCHES:
            running.memories.session_switched("q", parent_id="p", reason=reason)
        running.memories.session_ended("p", [])
        running.memories.session_rewound("q")
        running.memories.turn_ended("q", "u", "a")
        assert await running.memories.recall("q", "u") == ""
        assert await running.memories.tools("q") == []
    assert warnings(caplog) == []


@pytest.mark.parametrize(("reason", "reset"), SWITCHES)
async def test_b02_b05_b06_b07_b08_all_get_the_same_switch_once_in_the_order_of_registration(
    tmp_path: Path, reason: SwitchReason, reset: bool
) -> None:
    first = Prov("first")
    second = Prov("second", journal=first.journal)
    async with remembering(tmp_path, first, second) as running:
        running.memories.session_switched("q", parent_id="p", reason=reason)
    told = [call for call in first.journal if call.what == "on_session_switch"]
    assert [call.by for call in told] == ["first", "second"]
    for call in told:
        assert (call.session, call.user) == ("q", "anna")
        assert call.facts == {"parent_session_id": "p", "reset": reset, "reason": reason.value}


async def test_b09_a_rewind_is_told_with_the_same_id_and_only_it_says_rewound(tmp_path: Path) -> None:
    prov = Prov()
    async with remembering(tmp_path, prov) as running:
        running.memories.session_rewound("p")
    (call,) = prov.calls("on_session_switch")
    assert (call.session, call.facts) == ("p", {"rewound": True})


async def test_b03_a_provider_that_raises_costs_nobody_a_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken, well = Prov("broken"), Prov("well", recalled="the cat is called Miso")
    hooks = ("on_turn_start", "sync_turn", "queue_prefetch", "on_session_end", "on_session_switch", "prefetch")
    broken.fail_in(*hooks)
    async with remembering(tmp_path, broken, well) as running:
        assert "Miso" in await running.memories.recall("p", "what is the cat called?")
        running.memories.turn_ended("p", "u", "a")
        running.memories.session_ended("p", [message(1, "user", "u")])
        running.memories.session_switched("q", parent_id="p", reason=SwitchReason.NEW)
    for hook in hooks:
        assert len(well.calls(hook)) == len(broken.calls(hook)) == 1
        (said,) = [text for text in warnings(caplog) if f"broken: {hook}" in text]
        assert "hunter2" not in said
    assert len(warnings(caplog)) == len(hooks)


async def test_b03_a_provider_that_does_not_come_up_is_one_warning_and_gets_no_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken, well = Prov("broken"), Prov("well")
    broken.fail_in("initialize")
    async with remembering(tmp_path, broken, well) as running:
        running.memories.turn_ended("p", "u", "a")
        await running.memories.recall("p", "u")
    assert [call.what for call in broken.journal] == ["initialize"]
    assert len(well.calls("sync_turn", "prefetch")) == 2
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize("nothing", ["", None])
async def test_b04_without_an_id_nobody_is_called(tmp_path: Path, nothing: str) -> None:
    prov = Prov()
    async with remembering(tmp_path, prov) as running:
        running.memories.session_switched(nothing, parent_id="p", reason=SwitchReason.NEW)
        running.memories.session_rewound(nothing)
        running.memories.session_ended(nothing, [])
        running.memories.turn_ended(nothing, "u", "a")
        assert await running.memories.recall(nothing, "u") == ""
        await running.close()
        running.memories.session_switched(nothing, parent_id="p", reason=SwitchReason.NEW)
        running.memories.session_switched("q", parent_id="p", reason=SwitchReason.NEW)
    assert [call.what for call in prov.journal] == ["initialize", "close"]


async def test_b10_w12_what_is_queued_at_a_switch_keeps_the_session_of_its_turn(tmp_path: Path) -> None:
    prov = Prov()
    gate = prov.wait_in("sync_turn")
    async with remembering(tmp_path, prov) as running:
        running.memories.turn_ended("p", "old", "a")
        await prov.until_in("sync_turn")
        running.memories.turn_ended("p", "last", "a")
        running.memories.session_switched("q", parent_id="p", reason=SwitchReason.NEW)
        asked = asyncio.create_task(running.memories.recall("q", "new"))
        running.memories.turn_ended("q", "new", "a")
        gate.set()
        await asked
    syncs = [(call.session, call.facts["question"]) for call in prov.calls("sync_turn")]
    assert syncs == [("p", "old"), ("p", "last"), ("q", "new")]
    whats = [call.what for call in prov.journal]
    assert whats.index("prefetch") > whats.index("on_session_switch")
    assert [call.session for call in prov.calls("prefetch")] == ["q"]
    assert [call.session for call in prov.calls("queue_prefetch")] == ["p", "p", "q"]


async def test_b13_rb2_the_end_comes_before_the_switch_and_nobody_waits_for_it(tmp_path: Path) -> None:
    prov, other = Prov(), Prov("other")
    gate = prov.wait_in("on_session_end")
    other.watch("on_session_switch")
    async with remembering(tmp_path, prov, other) as running:
        running.memories.session_ended("p", [message(1, "user", "u1"), message(2, "assistant", "a1")])
        running.memories.session_switched("q", parent_id="p", reason=SwitchReason.NEW)
        await prov.until_in("on_session_end")
        await other.until_in("on_session_switch")
        assert prov.calls("on_session_switch") == []
        gate.set()
    order = [(call.what, call.session) for call in prov.calls("on_session_end", "on_session_switch")]
    assert order == [("on_session_end", "p"), ("on_session_switch", "q")]
    assert prov.calls("on_session_end")[0].facts["transcript"] == [Spoken("user", "u1"), Spoken("assistant", "a1")]


async def test_b16_a_slow_sync_holds_up_neither_the_next_turn_nor_its_order(tmp_path: Path) -> None:
    prov = Prov(recalled="a fact")
    gate = prov.wait_in("sync_turn")
    async with remembering(tmp_path, prov) as running:
        running.memories.turn_ended("p", "1", "a")
        await prov.until_in("sync_turn")
        assert "a fact" in await soon(running.memories.recall("p", "2"), "the second turn, while the first is synced")
        running.memories.turn_ended("p", "2", "a")
        gate.set()
    assert [call.facts["question"] for call in prov.calls("sync_turn")] == ["1", "2"]


async def test_b16_a_late_prefetch_is_left_and_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slow, quick = Prov("slow", recalled="too late"), Prov("quick", recalled="in time")
    gate = slow.wait_in("prefetch")
    async with remembering(tmp_path, slow, quick, prefetch=0.5) as running:
        told = await soon(running.memories.recall("p", "u"), "the turn goes on")
        assert "in time" in told
        assert "too late" not in told
        assert len(warnings(caplog)) == 1
        again = await soon(running.memories.recall("p", "u"), "the next turn does not wait for what hangs")
        assert "in time" in again
        assert len(slow.calls("prefetch")) == 1
        gate.set()
    assert len(warnings(caplog)) == 1


async def test_b16_a_hanging_provider_does_not_hold_up_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slow, quick = Prov("slow"), Prov("quick")
    gate = slow.wait_in("sync_turn")
    async with remembering(tmp_path, slow, quick, drain=0.5) as running:
        running.memories.turn_ended("p", "u", "a")
        await slow.until_in("sync_turn")
        await soon(running.close(), "the end")
        assert quick.calls("sync_turn", "close")
        assert slow.calls("close") == []
        (said,) = warnings(caplog)
        assert "slow" in said
        assert "quick" not in said
        gate.set()


async def test_a_turn_that_is_stopped_does_not_wait_for_its_prefetch(tmp_path: Path) -> None:
    prov = Prov()
    gate = prov.wait_in("prefetch")
    async with remembering(tmp_path, prov) as running:
        asked = asyncio.create_task(running.memories.recall("p", "u"))
        await prov.until_in("prefetch")
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(asked, "the stop")
        gate.set()


async def test_the_inbox_of_a_provider_that_hangs_is_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    prov = Prov()
    gate = prov.wait_in("on_turn_start")
    async with remembering(tmp_path, prov, drain=20) as running:
        worker = running.memories._workers[0]
        await running.memories.recall("p", "u")
        await prov.until_in("on_turn_start")
        for _ in range(MOST_WAITING + 10):
            running.memories.session_rewound("p")
        await eventually(running.memories._inbox.empty, "everything is handed over")
        assert worker.undone == MOST_WAITING
        closing = asyncio.create_task(running.close())
        await eventually(lambda: worker.undone > MOST_WAITING, "its own end is behind all that waits")
        gate.set()
        await soon(closing, "the end")
    assert prov.calls()[-1].what == "close"
    assert len(warnings(caplog)) >= 10


async def test_texts_that_are_no_unicode_are_made_sound(tmp_path: Path) -> None:
    prov = Prov(recalled="x\ud800y")
    async with remembering(tmp_path, prov) as running:
        (await running.memories.recall("p", "a\ud800b")).encode()
        running.memories.turn_ended("p", "a\ud800b", "a\ud800b")
        running.memories.session_ended("p", [message(1, "user", "a\ud800b")])
    for call in prov.calls("on_turn_start", "prefetch", "sync_turn", "queue_prefetch"):
        str(call.facts).encode()
        assert call.facts["question"].isprintable()
    (end,) = prov.calls("on_session_end")
    end.facts["transcript"][0].text.encode()


async def test_b33_each_call_names_the_user_of_its_session(tmp_path: Path) -> None:
    prov = Prov()
    async with remembering(tmp_path, prov) as running:
        await running.add("b", owner="bert")
        await running.add("c1", owner="app", chat="telegram:direct:1")
        await running.add("c2", owner="app", chat="telegram:direct:2")
        await running.add("odd", owner="app/telegram:direct:1")
        await running.add("n", owner=None)
        for session in ("p", "b", "c1", "c2", "odd", "n", "unknown"):
            running.memories.turn_ended(session, "u", "a")
    users = {call.session: call.user for call in prov.calls("sync_turn")}
    assert users["p"] == "anna"
    assert len(set(users.values())) == len(users) == 7


async def test_b23_rb7_tools_are_bound_to_the_session_they_were_made_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Same(MemoryProvider):
        def tools(self, *, session_id: str, user: str) -> Sequence[Tool]:
            return first.tools(session_id="x", user="x")

    first, second, same, broken = Prov("first"), Prov("second"), Same(), Prov("broken")
    broken.fail_in("tools")
    async with remembering(tmp_path, first, broken, second, same) as running:
        tools = await running.memories.tools("p")
    assert [tool.name for tool in tools] == ["first_touch", "second_touch"]
    assert [(call.session, call.user) for call in first.calls("tools")][:1] == [("p", "anna")]
    assert len(warnings(caplog)) == 2
