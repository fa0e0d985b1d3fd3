"""One stable for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.stable import Stable, stable_in


@pytest.fixture
async def stable(tmp_path: Path) -> AsyncIterator[Stable]:
    async with stable_in(tmp_path) as made:
        yield made
