"""A gateway with the demo agent, for every test of this room that asks for one; and one that nothing happens to, for
the tests of a module that are refused whatever they ask for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.served import Served, serving, visiting


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """With the settings a first start has."""
    async with serving(tmp_path / "data") as gateway:
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """With the settings a first start has."""
    async with serving(tmp_path_factory.mktemp("untouched") / "data") as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def untouched(undisturbed: Served) -> AsyncIterator[Served]:
    """The same for all of them, so each sees that the others left no trace.

    With a client of its own: while tests of other loops run, nobody is there to keep a connection alive.
    """
    async with visiting(undisturbed) as visitor:
        yield visitor
