"""Whose sessions may be in one agent process: with several keys, those of one owner only."""

import hashlib
from pathlib import Path
from typing import Any

from tests.support.served import Served, serving
from tests.support.waiting import eventually

KEYS = {name: f"a-long-secret-of-{name}" for name in ("ann", "bob")}


def key(name: str) -> dict[str, Any]:
    return {"name": name, "sha256": hashlib.sha256(KEYS[name].encode()).hexdigest(), "admin": True}


async def say(served: Served, name: str, text: str) -> None:
    headers = {"Authorization": f"Bearer {KEYS[name]}"}
    answer = await served.http.post("/v1/responses", json={"model": "demo", "input": text}, headers=headers)
    assert answer.status_code == 200, answer.text


def owners(served: Served) -> list[tuple[str | None, int]]:
    """Each process, with its owner and the sessions that it ever served."""
    snapshot = served.gateway.pool.snapshot()
    known = {view.slot: view.owner for view in snapshot.processes}
    slots = [slot for view in snapshot.core.keys for slot in view.slots]
    return sorted(((known[int(slot.slot)], slot.served) for slot in slots), key=str)


async def test_n29_sessions_of_two_keys_are_in_processes_of_their_own(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=[key("ann"), key("bob")]) as served:
        for name in ("ann", "bob", "ann", "bob"):
            await say(served, name, "hello")
        assert owners(served) == [("ann", 2), ("bob", 2)]
        headers = {"Authorization": f"Bearer {KEYS['ann']}"}
        state = (await served.http.get("/admin/pool", headers=headers)).json()
        assert (state["share"], sorted(each["owner"] for each in state["keys"])) == ("owner", ["ann", "bob"])


async def test_n29_all_share_where_the_setting_says_so_and_where_there_is_one_key(tmp_path: Path) -> None:
    async with serving(tmp_path / "a", auth__keys=[key("ann"), key("bob")], pool__share="all") as served:
        for name in ("ann", "bob"):
            await say(served, name, "hello")
        assert owners(served) == [(None, 2)]
    async with serving(tmp_path / "b", auth__keys=[key("ann")]) as served:
        await say(served, "ann", "hello")
        assert owners(served) == [(None, 1)]


async def test_n29_what_is_kept_ready_is_nobodys_until_an_owner_takes_it(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=[key("ann"), key("bob")], pool__prewarm=True) as served:
        pool = served.gateway.pool
        for name in ("ann", "bob"):
            await eventually(lambda: (None, 0) in owners(served) and parked(served), "a seat that is nobody's")
            await say(served, name, "hello")
            (key_of,) = {view.key for view in pool.snapshot().core.keys if view.key.owner == name}
            assert pool.why(key_of.key).claims[0].warmth == "parked"
        await eventually(lambda: owners(served) == [("ann", 1), ("bob", 1), (None, 0)], "the reserve is made anew")
        await eventually(lambda: served.starts() == 3, "the third process")


def parked(served: Served) -> bool:
    views = served.gateway.pool.snapshot().core.keys
    return any(line.parked for view in views if view.key.owner is None for line in view.lines)


async def test_n29_a_second_key_at_run_time_parts_the_owners(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=[key("ann")], pool__prewarm=True) as served:
        await say(served, "ann", "hello")
        lines = [f'[[keys]]\nname = "bob"\nsha256 = "{key("bob")["sha256"]}"\n']
        path = tmp_path / "data" / "keys.toml"
        path.write_text("\n".join(lines))
        path.chmod(0o600)
        await served.gateway.reloader.reload()
        for name in ("ann", "bob"):
            await say(served, name, "hello")
        assert [pair for pair in owners(served) if pair[0] is not None] == [("ann", 1), ("bob", 1)]
        await eventually(lambda: (None, 0) in owners(served) and parked(served), "what is to be kept ready")
