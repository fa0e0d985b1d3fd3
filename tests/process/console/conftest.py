"""A gateway with the demo agent, and a browser to look at it with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.browser import Screens, screens
from tests.support.served import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """With the settings a first start has."""
    async with serving(tmp_path / "data") as gateway:
        yield gateway


@pytest.fixture
async def chrome() -> AsyncIterator[Screens]:
    """Skips where there is none."""
    async with screens() as browser:
        yield browser
