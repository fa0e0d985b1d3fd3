"""The walk sees every seeded defect: this tests the invariants, as the walk tests the machine.

Which world sees a defect is known only by walking them, and some are seen by one in sixty. So each run notes which it
was, and the next one begins there: a note that is wrong, after a change of the core or of the worlds, costs time only.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.core.mutants import MUTANTS, Mutant, load
from tests.unit.core.walk import Walk

WORLDS, STEPS = 60, 1_500
NOTES = Path(__file__).resolve().parents[3] / ".cache" / "mutants"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_walk_kills_every_seeded_mutant(mutant: Mutant) -> None:
    mutated, note = load(mutant), NOTES / mutant.name
    with pytest.raises(AssertionError):
        walk_worlds(mutated, note)


def walk_worlds(lib: ModuleType, note: Path) -> None:
    """Each of them, that of the note first."""
    for seed in worlds(note):
        try:
            Walk(lib, seed).run(STEPS)
        except AssertionError:
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(str(seed))
            raise


def worlds(note: Path) -> Iterator[int]:
    """Their seeds."""
    first = 0
    with suppress(FileNotFoundError, ValueError):
        first = int(note.read_text())
    yield first % WORLDS
    yield from (seed for seed in range(WORLDS) if seed != first % WORLDS)


def test_there_are_enough_mutants_and_each_is_one_of_a_kind() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 15
