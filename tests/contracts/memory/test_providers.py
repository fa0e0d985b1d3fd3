"""What every provider of ours keeps: the rules of `MemoryProvider`, against the real thing or a server like it."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ostler.gateway.config.settings import HindsightSettings, HonchoSettings
from ostler.gateway.memory import BUILT_IN, load
from ostler.gateway.memory.provider import MemoryProvider, Spoken
from ostler.gateway.model.observers import SwitchReason
from tests.support.memory import home_in, message, remembering
from tests.support.memory_servers import KEY, HindsightService, HonchoService, running
from tests.support.waiting import eventually

ANNA, BERT = {"user": "anna"}, {"user": "bert"}
SAYING = "The red bicycle stands in the cellar"
QUESTION = "where does the red bicycle stand, in the cellar?"


@pytest.fixture(params=BUILT_IN)
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryProvider]:
    """One of each, not initialised."""
    hindsight, honcho = HindsightService(), HonchoService()
    with ExitStack() as stack:
        stack.enter_context(running(hindsight))
        stack.enter_context(running(honcho))
        home = home_in(
            tmp_path,
            providers=[request.param],
            hindsight=HindsightSettings(url=hindsight.url, api_key=KEY, retain_every=1, timeout=300),
            honcho=HonchoSettings(url=honcho.url, api_key=KEY, timeout=300),
        )
        (provider,) = load(home).values()
        yield provider


@pytest.fixture
def memory(fresh: MemoryProvider) -> Iterator[MemoryProvider]:
    fresh.initialize()
    yield fresh
    fresh.close()


def test_b33_what_was_said_is_offered_to_the_same_user_only(memory: MemoryProvider) -> None:
    memory.on_turn_start(SAYING, session_id="p", **ANNA)
    memory.sync_turn(SAYING, "Noted.", session_id="p", **ANNA)
    memory.queue_prefetch(SAYING, session_id="p", **ANNA)
    assert "bicycle" in memory.prefetch(QUESTION, session_id="q", **ANNA)
    assert "bicycle" not in memory.prefetch(QUESTION, session_id="b", **BERT)


def test_b33_users_whose_names_look_alike_are_different(memory: MemoryProvider) -> None:
    names = ["a/b", "a-b", "a b", "A/B", "", "/", "ä", "a" * 300, "a" * 299]
    for place, name in enumerate(names):
        memory.sync_turn(
            f"The red bicycle number{place}x stands in the cellar", "ok", session_id=f"s{place}", user=name
        )
    for place, name in enumerate(names):
        found = memory.prefetch(QUESTION, session_id="other", user=name)
        assert [f"number{each}x" in found for each in range(len(names))] == [
            each == place for each in range(len(names))
        ]


def test_nothing_known_is_nothing_said(memory: MemoryProvider) -> None:
    assert "bicycle" not in memory.prefetch(QUESTION, session_id="q", **ANNA)


@pytest.mark.parametrize("text", ["", " \n ", "\x00\x01", "x" * 200_000, "quote \" AND ' OR 1=1 --", "猫が好き"])
def test_any_text_is_taken(memory: MemoryProvider, text: str) -> None:
    memory.sync_turn(text or "something", text, session_id="p", **ANNA)
    memory.prefetch(text, session_id="q", **ANNA)


def test_b01_b11_every_switch_and_an_end_are_taken_in_any_order(memory: MemoryProvider) -> None:
    for reason in SwitchReason:
        memory.sync_turn(SAYING, "ok", session_id="p", **ANNA)
        memory.on_session_switch(
            "q", parent_session_id="p", reset=reason is SwitchReason.NEW, reason=reason.value, **ANNA
        )
        memory.on_session_end([Spoken("user", SAYING), Spoken("tool", "x")], session_id="p", **ANNA)
        memory.on_session_switch("p", parent_session_id="q", reason=reason.value, something_new=True, **ANNA)
    memory.on_session_switch("never-seen", rewound=True, **ANNA)
    memory.on_session_end([], session_id="never-seen", **ANNA)


async def test_b03_b16_it_works_in_a_lane_with_questions_beside_it(
    fresh: MemoryProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with remembering(tmp_path, fresh, drain=20) as at_work:
        memories = at_work.memories
        for turn in range(10):
            asked = await asyncio.gather(*(memories.recall(session, QUESTION) for session in ("p", "q", "t")))
            assert len(asked) == 3
            memories.turn_ended("p", f"{SAYING} {turn}", "ok")
        memories.session_ended("p", [message(1, "user", SAYING)])
        memories.session_switched("q", parent_id="p", reason=SwitchReason.NEW)
        await eventually(memories._inbox.empty, "all of it is handed over")
        assert "bicycle" in await memories.recall("t", QUESTION)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
