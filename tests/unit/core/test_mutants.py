"""The walk sees every seeded defect: this tests the invariants, as the walk tests the machine."""

from types import ModuleType

import pytest

from tests.unit.core.mutants import MUTANTS, Mutant, load
from tests.unit.core.walk import Walk

WORLDS, STEPS = 60, 1_500


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_walk_kills_every_seeded_mutant(mutant: Mutant) -> None:
    mutated = load(mutant)
    with pytest.raises(AssertionError):
        walk_worlds(mutated)


def walk_worlds(lib: ModuleType) -> None:
    for seed in range(WORLDS):
        Walk(lib, seed).run(STEPS)


def test_there_are_enough_mutants_and_each_is_one_of_a_kind() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 15
