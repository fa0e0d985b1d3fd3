"""One gateway for each module, and a conversation of its own for each test."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ostler.pool.demo.launch import command_line
from tests.support.chats import Chat
from tests.support.served import Served, serving
from tests.support.talks import Heard, Since, listen


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """With the demo agent, one that cannot be started, and one that takes long to."""
    others = {
        "providers__qwen-acp__command": ["/nowhere/agent"],
        "providers__acp__command": command_line(["--boot-delay", "60"]),
    }
    async with serving(tmp_path_factory.mktemp("talk") / "data", **others) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def heard(served: Served) -> Heard:
    """What memory is told, from the first session on."""
    return listen(served)


@pytest.fixture
def chat(served: Served, heard: Heard, request: pytest.FixtureRequest) -> Chat:
    """A conversation of this test alone."""
    return Chat(served, str(request.node.name))


@pytest.fixture
def since(served: Served) -> Since:
    """What the agents hear during this test."""
    return Since.now(served)
