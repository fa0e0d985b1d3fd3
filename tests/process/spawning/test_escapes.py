"""What real agents leave behind, and that none of it is left: by group, session, descent and marker."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from ostler.process import AgentProcess, ProcessSupervisor
from tests.support.processes import ESCAPES, LEAVES_A_STRANGER, Recorder, alive, identify, marked, python


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("end", ["stop", "kill", "died", "closed"])
async def test_w30a_w30b_w30c_no_descendant_outlives_its_agent(
    escape: str, end: str, tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    listener = Recorder()
    process = await AgentProcess.start(python(ESCAPES[escape], tmp_path), listener, supervisor=supervisor)
    left = identify(int(await listener.line()))
    match end:
        case "kill":
            process.kill()
        case "died":
            os.kill(process.pid, signal.SIGKILL)
            await listener.exited()  # dead before anyone looked: descent says nothing any more
        case "closed":
            await supervisor.aclose()
        case _:
            pass
    ended = await process.stop()
    assert not alive(left)
    assert not alive(process.identity)
    assert listener.exits == [ended]
    assert marked(supervisor.run.mark) == []
    assert not supervisor.folder.exists() or list(supervisor.folder.iterdir()) == []


async def test_w30a_w30b_w30c_whom_an_agent_left_without_any_bond_but_its_pipes_goes_with_it(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    """It has its own session, no marker, and no parent since its agent came to its end."""
    listener = Recorder()
    process = await AgentProcess.start(python(LEAVES_A_STRANGER, tmp_path), listener, supervisor=supervisor)
    ended = await listener.exited()
    left = identify(int((tmp_path / "stranger").read_text()))
    assert await process.stop() == ended
    assert not alive(left)
    assert list(supervisor.folder.iterdir()) == []


async def test_e13_twenty_ends_at_once_share_their_looks(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    listeners = [Recorder() for _ in range(20)]
    starts = (AgentProcess.start(python(ESCAPES["bare"], tmp_path), one, supervisor=supervisor) for one in listeners)
    processes = await asyncio.gather(*starts)
    left = [identify(int(await listener.line())) for listener in listeners]
    await asyncio.gather(*(process.stop() for process in processes))
    assert not any(map(alive, left))
    assert [len(listener.exits) for listener in listeners] == [1] * 20
