"""Real processes, on both loops: the pipe transports of uvloop and asyncio differ in their corners."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from ostler.process import ProcessSupervisor


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[ProcessSupervisor]:
    opened = await ProcessSupervisor.open(tmp_path / "run", "test")
    yield opened
    await opened.aclose()
