"""A gateway that nothing happens to, for the tests of a module that are refused whatever they ask for."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.served import Served, serving, visiting


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
