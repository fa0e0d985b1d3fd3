"""A gateway with the demo agent, for every test of this folder that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.served import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """With the settings a first start has."""
    async with serving(tmp_path / "data") as gateway:
        yield gateway
