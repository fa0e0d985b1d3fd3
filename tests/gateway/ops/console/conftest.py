"""A gateway with the demo agent, and a browser to look at it with.

The browser is one for all tests of a module: starting it costs more than most of them. So they share a loop too.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser

from tests.support.browser import Screens, browsing
from tests.support.served import Served, serving


@pytest_asyncio.fixture(loop_scope="module")
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """With the settings a first start has."""
    async with serving(tmp_path / "data") as gateway:
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Skips where there is none."""
    async with browsing() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def chrome(browser: Browser) -> AsyncIterator[Screens]:
    """No window is open in it yet."""
    screens = Screens(browser)
    yield screens
    await screens.close()
