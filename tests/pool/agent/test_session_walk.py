"""No order of events makes a session break its word; and the walk that says so sees every seeded defect."""

import pytest

import ostler.pool.agent.session_machine as original
from tests.pool.agent.session_mutants import MUTANTS
from tests.pool.agent.session_walk import SessionWalk
from tests.support.walks import Mutant, first_broken, load

WORLDS, STEPS = 100, 2_000


def test_m03_w40c_w40d_a_random_walk_keeps_every_invariant_and_makes_every_move_of_the_table() -> None:
    made, steps = set[object](), 0
    for seed in range(WORLDS):
        walk = SessionWalk(original, seed)
        steps += walk.run(STEPS)
        made |= walk.seen
    assert steps >= WORLDS * STEPS
    table = original.SessionMachine.TABLE
    assert {(at, event, to) for at, rows in table.items() for event, (_, after) in rows.items() for to in after} <= made


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_walk_kills_every_seeded_mutant_by_the_invariant_that_it_breaks(mutant: Mutant) -> None:
    mutated = load(mutant, original)
    broken = first_broken(lambda seed: SessionWalk(mutated, seed).run(STEPS), f"session_{mutant.name}", WORLDS)
    assert broken is not None
    assert broken.startswith(mutant.seen_by)


def test_there_are_enough_mutants_and_each_is_one_of_a_kind() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 15
