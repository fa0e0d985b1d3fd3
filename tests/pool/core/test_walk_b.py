"""Half of the million steps; the other half is in another file, so that two workers can share the walk."""

import pytest

import ostler.pool.core as core
from tests.pool.core.walk import PARTS, STEPS_PER_PART, walk_part


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS // 2, PARTS))
def test_w18a_w19_w22_w23a_w26_w27b_wm3_wm4_a_random_walk_keeps_every_invariant(part: int) -> None:
    assert walk_part(core, part) >= STEPS_PER_PART
