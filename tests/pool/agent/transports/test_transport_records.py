"""Where the records of an agent are that reads all of them for each load: real processes that write real files."""

import dataclasses
import os
import signal
import sys
from pathlib import Path

import pytest

from ostler.pool import PoolSettings, ProviderSettings, TransportKey, open_pool
from ostler.pool.agent.record_archive import BESIDE
from ostler.pool.core import Limits
from ostler.pool.errors import PoolError, TransportLost
from ostler.pool.launch.settings import Deadlines
from ostler.pool.order import SessionMemo
from ostler.pool.prompt import TextPart
from ostler.pool.provider import CloseVerb, LoadTrust, Records
from ostler.pool.providers import load
from tests.support.transport_harness import PRELUDE, SCRIPTED, TransportHarness
from tests.support.waiting import eventually

FORGETFUL = dataclasses.replace(
    SCRIPTED,
    name="forgetful",
    records=Records(".agent/*/chats", "session-*-{}.jsonl", 8),
    close=CloseVerb.NONE,
    recycle_after=20,
    load=LoadTrust(repeats=False),
)
AGENT = """
desk = os.path.join(os.environ["HOME"], ".agent", "work", "chats")
os.makedirs(desk, exist_ok=True)
def record(session):
    return os.path.join(desk, "session-17-33-%s.jsonl" % session[:8])
def write(session, line):
    with open(record(session), "a") as file:
        file.write(line + chr(10))
for method, frame, session in frames("session/new", "session/load", "session/prompt"):
    if method == "session/new":
        opened += 1
        session = "%04d%04d-0123456789" % (os.getpid() % 10000, opened)
        write(session, json.dumps({"sessionId": session}))
        answer(frame, {"sessionId": session})
    elif method == "session/load":
        first = os.path.join(os.environ["HOME"], "first-load")
        if os.path.exists(os.path.join(os.environ["HOME"], "slow")) and not os.path.exists(first):
            open(first, "w").close()
            time.sleep(2)
        elif not os.path.exists(record(session)):
            refuse(frame, -32002, "session not found")
            continue
        answer(frame, {})
    else:
        if "!deaf" in json.dumps(frame):
            time.sleep(1)
        write(session, "a word")
        text(session, "yes")
        done(frame)
"""


def where(folder: Path, session_id: str) -> list[str]:
    """The folders that its record is in."""
    return [path.parent.name for path in (folder / ".agent").rglob(f"*-{session_id[:8]}.jsonl")]


async def test_a_session_that_is_over_is_put_away_and_taken_back_to_be_loaded(harness: TransportHarness) -> None:
    transport = await harness.scripted(AGENT, provider=FORGETFUL)
    session, other = await transport.open(harness.order()), await transport.open(harness.order())
    await session.close()
    assert (where(harness.folder, session.id), where(harness.folder, other.id)) == (["chats" + BESIDE], ["chats"])
    successor = await harness.scripted(AGENT, provider=FORGETFUL)
    await successor.load(session.memo, harness.order())
    assert where(harness.folder, session.id) == ["chats"]


async def test_an_agent_that_is_still_in_a_turn_goes_on_with_its_record_where_it_was(harness: TransportHarness) -> None:
    transport = await harness.scripted(AGENT, provider=FORGETFUL, close=0.2)
    session = await transport.open(harness.order())
    await session.prompt([TextPart("!deaf")])
    await session.close()
    assert where(harness.folder, session.id) == ["chats"]


@pytest.mark.parametrize("ending", ["stopped", "killed"])
async def test_what_a_process_leaves_behind_is_put_away_when_it_is_gone(harness: TransportHarness, ending: str) -> None:
    transport = await harness.scripted(AGENT, provider=FORGETFUL)
    sessions = [await transport.open(harness.order()) for _ in range(20)]
    if ending == "stopped":
        await transport.close()
    else:
        os.kill(transport.pid, signal.SIGKILL)
        await transport.wait_lost()
        with pytest.raises(TransportLost):
            await transport.open(harness.order())
        await eventually(lambda: not list((harness.folder / ".agent" / "work" / "chats").iterdir()), "all are away")
    assert {name for session in sessions for name in where(harness.folder, session.id)} == {"chats" + BESIDE}


async def test_a_record_that_was_taken_back_in_vain_is_put_away_again(harness: TransportHarness) -> None:
    transport = await harness.scripted(
        AGENT.replace("elif not os.path.exists(record(session))", "else"), provider=FORGETFUL
    )
    session = await transport.open(harness.order())
    await session.close()
    with pytest.raises(PoolError):
        await transport.load(session.memo, harness.order())
    await eventually(lambda: where(harness.folder, session.id) == ["chats" + BESIDE], "it is away again")


async def test_a_load_that_ends_late_on_a_process_nobody_wants_takes_nothing_from_the_one_that_overtook_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "slow").touch()
    shelf = tmp_path / ".agent" / "work" / ("chats" + BESIDE)
    shelf.mkdir(parents=True)
    memo = SessionMemo("abcdefgh-1234", str(tmp_path / "work"), opened_at=1.0, last_turn_at=2.0)
    (shelf / "session-17-33-abcdefgh.jsonl").write_text(f'{{"sessionId":"{memo.session_id}"}}\n')
    agent = ProviderSettings(command=(sys.executable, "-S", "-c", PRELUDE + AGENT), deadlines=Deadlines(close=0.3))
    settings = PoolSettings(
        providers={"forgetful": agent}, limits=Limits(slow_open_after=0.5, sweep_every=0.1, probe_every=None)
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    providers = {**load(), "forgetful": FORGETFUL}
    async with open_pool(settings, runtime_dir=tmp_path / "run", environ=environ, providers=providers) as pool:
        key = TransportKey("forgetful", "m", str(tmp_path / "work"))
        # Somebody stays on the old process, so that it drains and is not stopped.
        other = await pool.lease(key, owner="other")
        lease = await pool.lease(key, owner="one", resume=memo)
        assert (lease.restored, lease.pid == other.pid) == (True, False)

        def ended_late() -> list[int]:
            return [one.leaked for one in pool.snapshot().processes if one.pid == other.pid]

        assert ended_late() == [0]
        await eventually(lambda: ended_late() == [1], "the load on the old process is over")
        other.release()
        await eventually(lambda: not ended_late(), "the old process is gone, and with it all that it had to put away")
        assert where(tmp_path, memo.session_id) == ["chats"]
        lease.release()
        await eventually(lambda: where(tmp_path, memo.session_id) == ["chats" + BESIDE], "it is over")
