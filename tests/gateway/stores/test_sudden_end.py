"""kill -9 at any moment: what was acknowledged is there, once, in order; a turn is whole or not there."""

import asyncio
import os
import random
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from ostler.gateway.model.errors import StoreOwned
from ostler.gateway.stores.owner import Ownership
from ostler.gateway.stores.sqlite import SqliteStore
from tests.support.stores import texts, those_kept

CHILD = [sys.executable, "-m", "tests.support.store_child"]
CYCLES = int(os.environ.get("OSTLER_KILL_CYCLES", "6"))
SESSIONS = 20


def lines_until_killed(folder: Path, acknowledged: int) -> list[str]:
    """What a writer had acknowledged when it was killed after so many lines, with whatever was under way."""
    with subprocess.Popen([*CHILD, "write", str(folder), str(SESSIONS)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(acknowledged)]
        child.kill()
        return [*lines, *child.stdout.read().splitlines(keepends=True)]


async def test_rh1_c25_h13_what_was_acknowledged_survives_kill_9_once_and_in_order(tmp_path: Path) -> None:
    rng = random.Random(7)
    acknowledged: dict[str, int] = defaultdict(int)
    for _ in range(CYCLES):
        for line in await asyncio.to_thread(lines_until_killed, tmp_path, rng.randrange(1, 400)):
            found = re.fullmatch(r"(?:turn )?(sess_\d+) (\d+)\n", line)
            if found is not None:
                acknowledged[found[1]] = max(acknowledged[found[1]], int(found[2]) + 1)
        store = await SqliteStore.open(tmp_path / "ostler.db")
        assert acknowledged
        for name, count in acknowledged.items():
            spoken = texts(await store.history(name))
            assert spoken == [str(n) for n in range(len(spoken))]
            assert len(spoken) >= count
            session = await store.get_session(name)
            assert session is not None
            assert session.message_count == len(spoken)
            await check_turns(store, name, len(spoken))
        await store.aclose()


async def check_turns(store: SqliteStore, name: str, spoken: int) -> None:
    """Every fifth message came with a response and a look at the slug: all three are there, or none."""
    turns = [n for n in range(spoken) if n % 5 == 0]
    assert await those_kept(store, *(f"resp_{name}_{n}" for n in range(spoken + 5))) == [
        f"resp_{name}_{n}" for n in turns
    ]
    slug = await store.get_conversation(f"slug_{name}")
    if turns:
        assert slug is not None
        assert (slug.session_id, slug.response_id) == (name, f"resp_{name}_{turns[-1]}")


HOLD = """
import os, sys
from pathlib import Path
from ostler.gateway.model.errors import StoreOwned
from ostler.gateway.stores.owner import Ownership
if "wait" in sys.argv:
    print("here", flush=True)
    sys.stdin.readline()
try:
    held = Ownership.take(Path(sys.argv[1]), pid=os.getpid())
except StoreOwned as error:
    sys.exit(f"owned by {error.pid}")
print("mine", flush=True)
sys.stdin.readline()
"""


def holder(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Takes the folder at once, or when it is told to `wait` for a line."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", HOLD, str(folder), *words], text=True, **pipes)


def said_by(child: subprocess.Popen[str]) -> str:
    """Its next line; nothing of one that was refused."""
    assert child.stdout is not None
    return child.stdout.readline()


def tell(child: subprocess.Popen[str]) -> None:
    """Let it go on."""
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def test_h18_w41b_the_folder_of_a_dead_gateway_is_taken_over_at_once(tmp_path: Path) -> None:
    for _ in range(3):
        with holder(tmp_path) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == "mine\n"
            with pytest.raises(StoreOwned) as refused:
                Ownership.take(tmp_path, pid=os.getpid())
            assert refused.value.pid == first.pid
            first.kill()
        with Ownership.take(tmp_path, pid=os.getpid()) as mine:
            mine.release()


@pytest.mark.parametrize("content", [b"", b"1\n", b"999999999\n", b"not a pid"])
def test_h18_a_stale_file_or_a_foreign_pid_in_it_does_not_matter(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "gateway.lock").write_bytes(content)
    with Ownership.take(tmp_path, pid=4242):
        assert (tmp_path / "gateway.lock").read_text() == "4242\n"


def test_w41c_of_many_who_start_at_once_one_owns(tmp_path: Path) -> None:
    started = [holder(tmp_path) for _ in range(5)]
    said = [child.stdout.readline() for child in started if child.stdout is not None]
    assert said.count("mine\n") == 1
    for child in started:
        with child:
            child.kill()


def test_w41c_whoever_comes_while_the_owner_dies_there_are_never_two(tmp_path: Path) -> None:
    for place in range(6):
        owner = holder(tmp_path)
        with owner:
            assert said_by(owner) == "mine\n"
            heirs = [holder(tmp_path, "wait") for _ in range(5)]
            assert [said_by(heir) for heir in heirs] == ["here\n"] * 5
            for number, heir in enumerate(heirs):
                if number == place:
                    owner.kill()
                tell(heir)
            owner.kill()
            said = [said_by(heir) for heir in heirs]
            assert said.count("mine\n") <= 1
            for heir in heirs:
                with heir:
                    heir.kill()
