"""What is told of how memory does: every question and every call once, with what became of it."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ostler.gateway.memory.provider_worker import MOST_WAITING
from ostler.gateway.memory.watch import BackgroundResult, Recalled
from tests.support.memory import Prov, remembering
from tests.support.waiting import eventually


@dataclass
class Ledger:
    """A watch that writes down."""

    recollections: list[tuple[str, Recalled]] = field(default_factory=list)
    calls: Counter[tuple[str, str, BackgroundResult]] = field(default_factory=Counter)
    lags: list[float] = field(default_factory=list)
    threads: dict[tuple[str, BackgroundResult], set[int]] = field(default_factory=dict)

    def recalled(self, memory: str, outcome: Recalled, seconds: float) -> None:
        assert seconds >= 0
        self.recollections.append((memory, outcome))

    def told(self, memory: str, call: str, outcome: BackgroundResult, lag: float) -> None:
        self.calls[memory, call, outcome] += 1
        self.lags.append(lag)
        self.threads.setdefault((memory, outcome), set()).add(threading.get_ident())


async def test_a_question_has_one_outcome_and_a_call_one(tmp_path: Path) -> None:
    found, nothing, broken, absent = Prov("found", "a cat"), Prov("nothing"), Prov("broken"), Prov("absent")
    broken.fail_in("prefetch", "sync_turn")
    absent.fail_in("initialize")
    watch = Ledger()
    async with remembering(tmp_path, found, nothing, broken, absent, watch=watch) as running:
        await running.memories.recall("p", "question")
        running.memories.turn_ended("p", "question", "answer")
    recalled = dict(watch.recollections)
    assert len(recalled) == len(watch.recollections) == 4
    # It had not come up when it was asked, or was known not to.
    assert recalled.pop("absent") in {Recalled.NOTHING, Recalled.SKIPPED}
    assert recalled == {"broken": Recalled.FAILED, "found": Recalled.FOUND, "nothing": Recalled.NOTHING}
    assert (
        watch.calls["found", "sync_turn", BackgroundResult.DONE]
        == watch.calls["found", "on_turn_start", BackgroundResult.DONE]
        == 1
    )
    assert watch.calls["broken", "sync_turn", BackgroundResult.FAILED] == 1
    assert (
        watch.calls["absent", "sync_turn", BackgroundResult.FAILED]
        == watch.calls["absent", "initialize", BackgroundResult.FAILED]
        == 1
    )
    assert min(watch.lags) >= 0
    assert all(len(each) == 1 for each in watch.threads.values()), "a number has one thread that tells of it"


async def test_b16_what_is_late_is_told_as_late_and_the_next_question_is_skipped(tmp_path: Path) -> None:
    prov, watch = Prov(), Ledger()
    gate = prov.wait_in("prefetch")
    async with remembering(tmp_path, prov, watch=watch, prefetch=0.05) as running:
        await running.memories.recall("p", "one")
        await running.memories.recall("p", "two")
        gate.set()
    assert watch.recollections == [("prov", Recalled.LATE), ("prov", Recalled.SKIPPED)]


async def test_calls_behind_one_that_hangs_are_counted_while_they_wait_and_when_they_are_lost(tmp_path: Path) -> None:
    prov, watch = Prov(), Ledger()
    gate = prov.wait_in("sync_turn")
    async with remembering(tmp_path, prov, watch=watch) as running:
        for _ in range(MOST_WAITING):
            running.memories.turn_ended("p", "question", "answer")
        await prov.until_in("sync_turn")
        await eventually(lambda: watch.calls["prov", "queue_prefetch", BackgroundResult.LOST], "calls are lost")
        assert running.memories.undone()["prov"] >= MOST_WAITING - 1
        gate.set()
        await eventually(lambda: not running.memories.undone()["prov"], "the rest is done")
    ended = sum(count for (_, call, _), count in watch.calls.items() if call in {"sync_turn", "queue_prefetch"})
    assert ended == 2 * MOST_WAITING
    assert running.memories.undone() == {"prov": 0}
