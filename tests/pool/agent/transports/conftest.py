"""One harness for each test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.support.transport_harness import TransportHarness, transport_harness_in


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that serves; what differs between loops is the process's, and is tested there on both."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TransportHarness]:
    async with transport_harness_in(tmp_path) as made:
        yield made
