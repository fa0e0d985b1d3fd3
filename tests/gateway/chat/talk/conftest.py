"""One gateway for each module, and a conversation of its own for each test."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ostler.demo.launch import command_line
from tests.support.chats import Chat
from tests.support.served import Served, serving
from tests.support.talks import Heard, Since


@pytest.fixture(scope="module")
def heard() -> Heard:
    """What memory is told."""
    return Heard()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, heard: Heard) -> AsyncIterator[Served]:
    """With the demo agent, one that cannot be started, and one that takes long to."""
    others = {
        "providers__qwen-acp__command": ["/nowhere/agent"],
        "providers__acp__command": command_line(["--boot-delay", "60"]),
        "providers__acp__approval": "ask",
    }
    async with serving(tmp_path_factory.mktemp("talk") / "data", observer=heard, **others) as gateway:
        yield gateway


@pytest.fixture
def chat(served: Served, request: pytest.FixtureRequest) -> Chat:
    """A conversation of this test alone."""
    return Chat(served, str(request.node.name))


@pytest.fixture
def since(served: Served) -> Since:
    """What the agents hear during this test."""
    return Since.now(served)
