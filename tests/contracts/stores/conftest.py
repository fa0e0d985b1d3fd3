"""Every test here runs with every kind of store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler.gateway.model.store import Store
from tests.support.stores import KINDS, Place


@pytest.fixture(params=sorted(KINDS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind = str(request.param)
    return Place(kind, KINDS[kind], tmp_path / "data")


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    async with place.opened() as opened:
        yield opened
