"""`/readyz` is red while every request would be refused, says what to do, and is green again after."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.ops.console.console_text import headline
from ostler.pool.launch.edition import PROCESS_BYTES
from tests.support.serve_command import refused
from tests.support.served import Served, gateway_at, serving
from tests.support.small_disk import filled, small_disk
from tests.support.talks import locked
from tests.support.waiting import eventually

pytestmark = pytest.mark.long


async def turned(served: Served, status: int) -> dict[str, Any]:
    """What `/readyz` says when it has come to this status."""
    await eventually(lambda: served.gateway.readiness.ready is (status == 200), f"/readyz is {status}")
    answer = await served.http.get("/readyz")
    assert answer.status_code == status
    body: dict[str, Any] = answer.json()
    return body


async def state(served: Served) -> dict[str, Any]:
    """What operators see."""
    found: dict[str, Any] = (await served.http.get("/admin/pool")).json()
    return found


async def test_n48_a_full_disk_turns_it_red_and_room_turns_it_green(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, "4m") as mounted:
        if not mounted:
            pytest.skip("needs the right to mount a small disk")
        async with serving(disk / "data") as served:
            assert await served.say("hello") == "echo: hello"
            assert (await served.http.get("/readyz")).json() == {"status": "ready"}
            with filled(disk):
                said = await turned(served, 503)
                assert said["problems"] == ["the disk of the data folder is full: free some space"]
                (problem,) = (await state(served))["problems"]
                assert str(disk / "data") in problem
                assert (await served.ask("lost")).status_code == 503
            await turned(served, 200)
            assert await served.say("again") == "echo: again"


async def test_n48_a_write_that_failed_is_told_at_once_and_tried_again_without_clients(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        await served.say("hello")
        with locked(served):
            assert (await served.ask("lost")).status_code == 503
            said = (await served.http.get("/readyz")).json()
            assert said["status"] == "what is said cannot be stored: see the log"
        await turned(served, 200)


async def test_n48_a_default_directory_that_is_gone_turns_it_red(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with serving(tmp_path / "data", gateway__default_cwd=str(work)) as served:
        assert (await served.http.get("/readyz")).status_code == 200
        work.rename(tmp_path / "away")
        said = await turned(served, 503)
        assert "make it, or set gateway.default_cwd" in said["status"]
        assert str(work) not in str(said)
        assert str(work) in str((await state(served))["problems"])
        (tmp_path / "away").rename(work)
        await turned(served, 200)


def test_n48_a_default_directory_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    missing = tmp_path / "typo"
    said = refused(tmp_path, OSTLER_GATEWAY__DEFAULT_CWD=str(missing))
    assert said.returncode == 1
    assert f"gateway.default_cwd: there is no directory {missing}; make it, or name another one" in said.stderr
    assert not missing.exists()


@pytest.mark.parametrize("name", ["OSTLER_GATEWAY__DEFAULT_CWD", "OSTLER_CONFIG"])
def test_n48_a_path_that_cannot_be_looked_at_stops_the_start_with_its_name(tmp_path: Path, name: str) -> None:
    said = refused(tmp_path, **{name: "/" + "x" * 300})
    assert said.returncode == 1
    assert "xxx" in said.stderr
    assert "can be looked at (File name too long)" in said.stderr or "looked at: File name too long" in said.stderr
    assert "Traceback" not in said.stderr


async def test_n48_a_default_model_that_is_not_installed_turns_it_red_until_it_is(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    environ = {"PATH": str(programs)}
    async with serving(tmp_path / "data", environ=environ, gateway__default_model="gemini") as served:
        said = (await served.http.get("/readyz")).json()
        assert "the agent of gateway.default_model cannot be started" in said["status"]
        (problem,) = (await state(served))["problems"]
        assert "no program 'gemini' on PATH" in problem
        assert "npm install -g @google/gemini-cli" in problem
        (programs / "gemini").symlink_to(shutil.which("true") or "/bin/true")
        await turned(served, 200)


async def test_n48_roots_without_a_default_directory_refuse_nobody_who_names_none(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    async with serving(tmp_path / "data", pool__roots=[str(root)]) as served:
        assert await served.say("hello") == "echo: hello"
        assert await served.say("hello", metadata={"cwd": str(root)}) == "echo: hello"
        for outside in (tmp_path, served.folder, served.folder / "work" / "..", served.folder / "run"):
            assert (await served.ask("hello", metadata={"cwd": str(outside)})).status_code == 400


async def test_n48_a_gateway_that_is_paused_and_not_ready_is_called_not_ready(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", environ={"PATH": str(tmp_path)}, gateway__default_model="gemini") as served:
        served.gateway.pool.pause()
        found = await state(served)
        assert (found["ready"], found["paused"]) == (False, True)
        assert headline(found).startswith("NOT READY: ")
        assert "not ready</span>" in (await served.http.get("/")).text


async def test_n48_permissions_that_the_default_agent_cannot_keep_stop_the_start(tmp_path: Path) -> None:
    demo, settings = {"demo": {"approval": "auto"}}, {"pool__permissions": "deny"}
    with pytest.raises(ConfigError, match=r"gateway\.default_model: agents of demo cannot be held to .*'deny'"):
        async with gateway_at(tmp_path / "data", demo, {}, settings):
            pass


async def test_n48_a_budget_with_room_for_one_process_serves(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__memory_budget=PROCESS_BYTES) as served:
        assert await served.say("hello") == "echo: hello"


def test_n48_a_budget_without_room_for_one_process_stops_the_start(tmp_path: Path) -> None:
    said = refused(tmp_path, OSTLER_POOL__MEMORY_BUDGET=str(PROCESS_BYTES - 1))
    assert said.returncode == 1
    assert f"pool.memory_budget: {PROCESS_BYTES - 1} bytes are too few for one process" in said.stderr
