"""Where an agent is to work is looked up beside the loop: a dead disk holds up nobody but who asked for it."""

import asyncio
import threading
from pathlib import Path

import pytest

from ostler.gateway.config.keys import Caller
from ostler.gateway.model.api_error import ApiError
from ostler.gateway.model.model_names import Models
from ostler.gateway.turns.places import Places, directory_check_below
from ostler.pool.launch.directories import Directories
from tests.support.waiting import soon

MODELS = Models({}, {"demo": "demo"}, "demo/demo")
CALLER = Caller()


async def test_a_disk_that_does_not_answer_holds_up_only_its_own_request(tmp_path: Path) -> None:
    alive, asked = threading.Event(), threading.Event()

    def look(cwd: str) -> str:
        if cwd == "/dead":
            asked.set()
            alive.wait(20)
        return cwd

    places = Places(MODELS, tmp_path, Directories(look, lambda: 0.0))
    stuck = asyncio.create_task(places.key("demo", "/dead", CALLER))
    assert await asyncio.to_thread(asked.wait, 20)
    assert (await soon(places.key("demo", "/sound", CALLER), "another directory")).cwd == "/sound"
    assert not stuck.done()
    alive.set()
    assert (await soon(stuck, "the disk that came back")).cwd == "/dead"


async def test_only_the_roots_and_the_usual_directory_are_good(tmp_path: Path) -> None:
    usual, root, other = (tmp_path / name for name in ("usual", "root", "other"))
    for folder in (usual, root, other):
        folder.mkdir()
    places = Places(MODELS, usual, Directories(directory_check_below((str(root),), usual), lambda: 0.0))
    assert (await places.key("demo", None, CALLER)).cwd == str(usual)
    assert (await places.key("demo", str(root), CALLER)).cwd == str(root)
    with pytest.raises(ApiError, match="outside the allowed roots") as refused:
        await places.key("demo", str(other), CALLER)
    assert (refused.value.status, refused.value.code) == (400, "invalid_cwd")
