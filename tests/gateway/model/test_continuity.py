"""The state of a conversation under any order of everything that may happen to it; and proof that the walk would see a
wrong decision: every seeded mistake is found."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ostler.gateway.model import continuity
from ostler.gateway.model.continuity import ConversationName, Known, Queue, Way
from tests.gateway.model.continuity_walk import Decider, mutant, walk

SEEDS = 300
MUTANT_SEEDS = 3000


def blind(known: Known, tail: Sequence[int]) -> tuple[int, ...] | None:
    """Only the last message counts."""
    return () if tail and tail[-1] in known.own else known.untold(tail)


def careless(size: int, total: int, **facts: Any) -> Way:
    """The end of the session, if that is at most one turn further on."""
    return Way.GO_ON if total - size <= 2 else continuity.way_on(size, total, **facts)


def unlooked(size: int, total: int, **facts: Any) -> Way:
    return Way.GO_ON if facts["joined"] else continuity.way_on(size, total, **facts)


def impatient(size: int, total: int, **facts: Any) -> Way:
    way = continuity.way_on(size, total, **facts)
    return Way.FORK if way is Way.WAIT else way


def at_end(answers: Sequence[str | None], _after: str, **_facts: Any) -> int:
    return len(answers)


def short(answers: Sequence[str | None], after: str, **facts: Any) -> int:
    return max(0, continuity.cut(answers, after, **facts) - 2)


def never_begins(answers: Sequence[str | None], after: str, **facts: Any) -> int:
    return continuity.cut(answers, after, **{**facts, "begins": False})


def takes_what_runs(answers: Sequence[str | None], after: str, **facts: Any) -> int:
    return continuity.cut(answers, after, **{**facts, "running": ()})


def untold_stays(*, told: bool, receipt: bool, drained: bool) -> bool:
    del receipt
    return told or drained


MUTANTS: dict[str, Decider] = {
    "the end of a turn writes its name back": mutant(turn_updates=lambda _name, _session: True),
    "the end of a turn brings a deleted name back": mutant(
        turn_updates=lambda name, session: name is None or name.session_id == session
    ),
    "the end of a turn moves a name back": mutant(turn_updates=lambda name, _session: name is not None),
    "a command moves whatever is there": mutant(command_moves=lambda _name, _left: True),
    "everybody stands in the queue": mutant(joins=lambda _after, _queue: True),
    "a reserved place is nobody's": mutant(joins=lambda after, queue: queue.last in (None, after)),
    "a queue is joined wherever it ends": mutant(joins=lambda _after, queue: not queue.busy or queue.last is not None),
    "the latest response has any number of continuations": mutant(way_on=careless),
    "nobody looks whether the session went on": mutant(way_on=unlooked),
    "a fork from what is still made takes what is there": mutant(way_on=impatient),
    "a fork takes everything along": mutant(cut=at_end),
    "a fork loses the last turn": mutant(cut=short),
    "a response that left nothing has no beginning": mutant(cut=never_begins),
    "a fork takes what a running turn has stored": mutant(cut=takes_what_runs),
    "only the last message counts": mutant(untold=blind),
    "nothing new is told": mutant(untold=lambda known, tail: () if known.untold(tail) is not None else None),
    "what was stored stays": mutant(stays=lambda **_facts: True),
    "a receipt is worth nothing": mutant(stays=lambda *, told, **_facts: told),
    "whatever a drain stops stays": mutant(stays=untold_stays),
    "a receipt outlives a stop": mutant(stays=lambda *, told, receipt, **_facts: told or receipt),
    "a call is answered any number of times": mutant(answered_before=lambda _states: []),
    "a restart forgets what was queued": mutant(keeps_queued=lambda _status: False),
    "a restart asks again what was asked": mutant(keeps_queued=lambda status: status in ("queued", "in_progress")),
    "taking back takes what others said": mutant(takes_back=lambda _own, stored: list(stored)),
    "nothing is taken back": mutant(takes_back=lambda _own, _stored: []),
    "a fork has the instructions of today": mutant(fork_instructions=lambda _held, now: now),
    "a fork has no instructions": mutant(fork_instructions=lambda _held, _now: ""),
}


@pytest.mark.parametrize("part", range(4))
def test_n19_n20_n21_n22_n23_n24_n25_no_order_of_events_harms_a_conversation(part: int) -> None:
    for seed in range(part, SEEDS, 4):
        assert walk(seed, Decider()) == [], f"seed {seed}"


@pytest.mark.parametrize("name", MUTANTS)
def test_n19_n20_n21_n22_n23_n24_n25_the_walk_finds_every_seeded_mistake(name: str) -> None:
    assert any(walk(seed, MUTANTS[name]) for seed in range(MUTANT_SEEDS)), name


@pytest.mark.parametrize(
    ("decide", "expected"),
    [
        (lambda: continuity.turn_updates(ConversationName(None), "s1"), True),
        (lambda: continuity.command_moves(None, None), True),
        (lambda: continuity.command_moves(ConversationName(None), "s1"), True),
        (lambda: continuity.joins("r1", Queue(busy=True, last=None)), False),
        (lambda: continuity.cut([None, "r1"], "r0", begins=False), 2),
        (lambda: continuity.cut(["r1", "r1", "r2"], "r1", begins=False), 2),
    ],
)
def test_what_early_versions_and_lost_messages_leave_is_decided_too(
    decide: Callable[[], object], expected: object
) -> None:
    assert decide() == expected


def test_a_response_whose_calls_are_open_goes_on_in_its_session() -> None:
    assert continuity.way_on(2, 4, joined=True, finished=True, waits=True) is Way.GO_ON
    assert continuity.way_on(2, 4, joined=True, finished=True, waits=False) is Way.FORK


def test_an_agent_that_knows_what_is_no_longer_said_is_told_everything() -> None:
    known = Known(5, frozenset({6, 8}))
    assert known.untold([6, 7, 8, 9]) == (7, 9)
    assert known.untold([6, 8]) == ()
    assert known.untold([6, 7]) is None
    assert known.untold([]) is None
