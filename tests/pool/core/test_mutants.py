"""The walk sees every seeded defect: this tests the invariants, as the walk tests the machine."""

import pytest

import ostler.pool.core as original
from tests.pool.core.mutants import MUTANTS
from tests.pool.core.walk import Walk
from tests.support.walks import Mutant, first_broken, load

WORLDS, STEPS = 60, 1_500


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_walk_kills_every_seeded_mutant(mutant: Mutant) -> None:
    mutated = load(mutant, original)
    assert first_broken(lambda seed: Walk(mutated, seed).run(STEPS), mutant.name, WORLDS) is not None


def test_there_are_enough_mutants_and_each_is_one_of_a_kind() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 15
