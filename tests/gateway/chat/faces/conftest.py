"""A gateway with the demo agent, and one conversation on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.chats import Chat
from tests.support.served import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """With the settings a first start has."""
    async with serving(tmp_path / "data") as gateway:
        yield gateway


@pytest.fixture
def chat(served: Served) -> Chat:
    """One conversation."""
    return Chat(served)
