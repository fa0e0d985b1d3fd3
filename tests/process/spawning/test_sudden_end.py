"""The gateway dies without a word: its reaper, or else the next start's ledger, leaves nothing of it."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from ostler.process import ProcessIdentity, ProcessSupervisor
from ostler.process.ledger import Run, spawns_folder
from tests.process.spawning.kill_cycles import run_cycles
from tests.support.gateways import launch, stand_in
from tests.support.processes import alive, identify, marked
from tests.support.waiting import eventually

pytestmark = pytest.mark.long


async def gone(identities: list[ProcessIdentity], within: float = 300.0) -> None:
    await eventually(lambda: not any(map(alive, identities)), "the end of all that belonged to the gateway", within)


async def test_e15_w30d_five_seconds_after_kill_nine_nothing_is_left(tmp_path: Path) -> None:
    with stand_in(tmp_path / "run") as gateway:
        assert len(gateway.agents) == 6
        gateway.kill()
        await gone([*gateway.agents, gateway.reaper])
        assert marked(gateway.mark) == []


async def test_e15_terminal_signals_do_not_end_the_reaper(tmp_path: Path) -> None:
    with stand_in(tmp_path / "run", 1) as gateway:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(gateway.reaper.pid, number)
        assert alive(gateway.reaper)
        gateway.kill()
        await gone(gateway.agents)


async def test_w30d_without_a_reaper_the_next_start_settles_the_ledger(tmp_path: Path) -> None:
    with stand_in(tmp_path / "run") as gateway:
        # Stopped first, so that no replacement reaper is started in between.
        os.kill(gateway.process.pid, signal.SIGSTOP)
        os.kill(gateway.reaper.pid, signal.SIGKILL)
        gateway.kill()
        assert all(map(alive, gateway.agents))
        supervisor = await ProcessSupervisor.open(gateway.runtime_dir, "next")
        try:
            assert not any(map(alive, gateway.agents))
            assert marked(gateway.mark) == []
            assert supervisor.reaped >= len(gateway.agents)
            assert [folder.name for folder in spawns_folder(gateway.runtime_dir).iterdir()] == [supervisor.run.name]
        finally:
            await supervisor.aclose()


async def test_a_killed_reaper_is_replaced_and_told_everything(tmp_path: Path) -> None:
    with stand_in(tmp_path / "run") as gateway:
        os.kill(gateway.reaper.pid, signal.SIGKILL)
        await eventually(lambda: set(reapers_of(gateway.mark)) - {gateway.reaper.pid})
        (replacement,) = map(identify, set(reapers_of(gateway.mark)) - {gateway.reaper.pid})
        gateway.kill()
        await gone([*gateway.agents, replacement])


async def test_w32_a_live_gateway_is_left_alone(tmp_path: Path) -> None:
    with stand_in(tmp_path / "run") as gateway:
        supervisor = await ProcessSupervisor.open(gateway.runtime_dir, "next")
        await supervisor.aclose()
        assert all(map(alive, gateway.agents))


async def test_w32_a_recycled_pid_is_left_alone(tmp_path: Path) -> None:
    """The dead gateway's ledger names a pid that somebody else has now, as leader of a session of its own."""
    runtime_dir = tmp_path / "run"
    await (await ProcessSupervisor.open(runtime_dir, "first")).aclose()
    stranger = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    identity = identify(stranger.pid)
    here = Run.of_this_process("dead")
    dead = Run("dead", ProcessIdentity(here.owner.pid, here.owner.start - 1), here.boot, here.namespace)
    folder = spawns_folder(runtime_dir) / dead.name
    folder.mkdir()
    (folder / "1").write_text(f'{{"label": "x"}}\n{{"pid": {identity.pid}, "start": {identity.start - 1}}}\n')
    supervisor = await ProcessSupervisor.open(runtime_dir, "next")
    assert alive(identity)
    assert not folder.exists()
    await supervisor.aclose()
    stranger.kill()
    await stranger.wait()


async def test_e15_w30d_whom_an_agent_left_in_a_torn_start_is_known_by_its_pipes(tmp_path: Path) -> None:
    """Nobody was told the pid of the agent, nobody saw it; its child has no marker, no parent and its own session."""
    stranger = left_by_a_torn_start(tmp_path / "run", "torn")
    await gone([stranger])


async def test_w30d_without_a_reaper_the_next_start_knows_them_by_the_recorded_pipes(tmp_path: Path) -> None:
    stranger = left_by_a_torn_start(tmp_path / "run", "alone")
    assert alive(stranger)
    supervisor = await ProcessSupervisor.open(tmp_path / "run", "next")
    try:
        assert not alive(stranger)
    finally:
        await supervisor.aclose()


async def test_w30d_the_next_start_waits_for_the_last_reaper(tmp_path: Path) -> None:
    """It knows more than the ledger, so nothing is over before it is, even where nobody is left."""
    with stand_in(tmp_path / "run", 1) as gateway:
        os.kill(gateway.reaper.pid, signal.SIGSTOP)
        gateway.kill()
        opening = asyncio.create_task(ProcessSupervisor.open(gateway.runtime_dir, "next"))
        await gone(gateway.agents)
        assert not (await asyncio.wait({opening}, timeout=0.5))[0]
        os.kill(gateway.reaper.pid, signal.SIGCONT)
        supervisor = await opening
        try:
            assert not alive(gateway.reaper)
        finally:
            await supervisor.aclose()


def left_by_a_torn_start(runtime_dir: Path, how: str) -> ProcessIdentity:
    """The gateway has died within a start; who is left of the agent's."""
    process = launch(runtime_dir, how)
    assert process.wait(300) == -signal.SIGKILL
    assert process.stdout is not None
    process.stdout.close()
    return identify(int((runtime_dir / "stranger").read_text()))


def test_w30d_n53_killed_at_random_moments_nothing_survives_the_next_start(tmp_path: Path) -> None:
    tally = run_cycles(6, seed=1, runtime_dir=tmp_path / "run")
    assert (tally.cycles, tally.survivors, tally.descriptors_leaked) == (6, 0, 0)
    assert tally.spawned > 0


def reapers_of(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"reaper.watch" in line and mark.encode() in line:
                found.append(int(entry.name))
    return found
