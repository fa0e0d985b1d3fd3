"""Starts that fail: typed, in time, with the facts, and nothing left behind."""

import asyncio
import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ostler.pool.errors import AgentStartFailed, Phase
from ostler.pool.launch.settings import Deadlines, ProviderSettings
from ostler.pool.provider import Provider
from ostler.pool.providers.demo import PROVIDER as DEMO
from ostler.pool.providers.gemini import PROVIDER as GEMINI
from tests.support.transport_harness import SCRIPTED, TransportHarness, say
from tests.support.waiting import eventually

WEB_SERVER = (sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0")


def fds() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


async def first_start(harness: TransportHarness) -> None:
    """What a loop opens once, for all processes to come."""
    await (await harness.demo()).close()


async def fails(harness: TransportHarness, command: tuple[str, ...], provider: Provider = SCRIPTED) -> AgentStartFailed:
    """One failed start that leaves no process and no descriptor."""
    settings = ProviderSettings(command=command, deadlines=Deadlines(start=2.0))
    plan = harness.plan(provider, settings)
    await first_start(harness)
    before, kids = fds(), children()
    with pytest.raises(AgentStartFailed) as caught:
        await harness.start(plan)
    # A loop closes what it was told to close in its next rounds.
    await eventually(lambda: fds() == before)
    assert children() == kids
    assert caught.value.provider == provider.name
    assert caught.value.command[0] == plan.command.full_argv[0]
    return caught.value


async def test_a_handshake_names_the_agent(harness: TransportHarness) -> None:
    transport = await harness.demo()
    assert transport.info.name == "ostler-demo"
    assert psutil.pid_exists(transport.pid)
    assert transport.identity.start_time > 0
    assert await transport.probe()
    memory = await transport.memory()
    assert 0 < memory.own < memory.rss
    assert 0 < memory.pss <= memory.rss


async def test_a_program_that_repeats_what_it_hears_is_no_agent(harness: TransportHarness) -> None:
    error = await fails(harness, ("cat",))
    assert error.phase is Phase.HANDSHAKE


async def test_wm1_a_program_that_ends_at_once_has_code_0_and_failed(harness: TransportHarness) -> None:
    error = await fails(harness, ("true",))
    assert (error.phase, error.exit_code) == (Phase.HANDSHAKE, 0)


async def test_a_web_server_is_no_agent_and_is_quoted(harness: TransportHarness) -> None:
    error = await fails(harness, WEB_SERVER)
    assert error.phase is Phase.HANDSHAKE
    assert "Serving HTTP" in str(error)


async def test_the_last_words_of_a_failed_start_are_told(harness: TransportHarness) -> None:
    error = await fails(harness, (sys.executable, "-c", "import sys; sys.exit('no luck today')"))
    assert error.exit_code == 1
    assert "no luck today" in str(error)


async def test_a_refused_handshake(harness: TransportHarness) -> None:
    plan = harness.plan(DEMO, ProviderSettings(args=("--refuse-initialize",)))
    with pytest.raises(AgentStartFailed, match="refuse initialize") as caught:
        await harness.start(plan)
    assert caught.value.phase is Phase.HANDSHAKE


async def test_another_version_of_the_protocol(harness: TransportHarness) -> None:
    script = "json.loads(input()); say(id=1, result={'protocolVersion': 9}); time.sleep(60)"
    with pytest.raises(AgentStartFailed, match="version 9"):
        await harness.scripted(script)


async def test_a_missing_working_directory(harness: TransportHarness, tmp_path: Path) -> None:
    plan = harness.plan(DEMO, ProviderSettings())
    gone = dataclasses.replace(plan, command=dataclasses.replace(plan.command, cwd=tmp_path / "gone"))
    with pytest.raises(AgentStartFailed, match="working directory") as caught:
        await harness.start(gone)
    assert caught.value.phase is Phase.SPAWN


async def test_w33a_fifty_silent_programs_leave_no_descriptor(harness: TransportHarness) -> None:
    settings = ProviderSettings(command=("sleep", "60"), deadlines=Deadlines(start=0.11))
    plan = harness.plan(SCRIPTED, settings)
    await first_start(harness)
    before, kids = fds(), children()
    for _ in range(5):
        starts = await asyncio.gather(*(harness.start(plan) for _ in range(10)), return_exceptions=True)
        assert ["did not answer initialize" in str(error) for error in starts] == [True] * 10, starts
        assert {type(error) for error in starts} == {AgentStartFailed}
    await eventually(lambda: fds() == before)
    assert children() == kids


async def test_w33b_who_would_answer_the_handshake_too_late_is_gone_by_then(harness: TransportHarness) -> None:
    """It takes no hint to leave, and would answer a tenth of a second after its deadline."""
    late = ProviderSettings(
        args=("--delay-initialize", "0.5", "--ignore-eof", "--ignore-term"), deadlines=Deadlines(start=0.4)
    )
    await first_start(harness)
    before, kids = fds(), children()
    with pytest.raises(AgentStartFailed, match="did not answer initialize") as caught:
        await harness.start(harness.plan(DEMO, late))
    assert children() == kids
    assert caught.value.phase is Phase.HANDSHAKE
    await eventually(lambda: fds() == before)


async def test_a_start_that_is_given_up_leaves_nothing(harness: TransportHarness) -> None:
    kids = children()
    plan = harness.plan(SCRIPTED, ProviderSettings(command=("sleep", "60")))
    task = asyncio.create_task(harness.start(plan))
    await eventually(lambda: children() != kids)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == kids


async def test_no_key_is_said_when_the_session_is_opened(harness: TransportHarness) -> None:
    provider = dataclasses.replace(SCRIPTED, credentials=GEMINI.credentials)
    script = """
for method, frame, session in frames("session/new"):
    refuse(frame, -32000, "Authentication required")
"""
    transport = await harness.scripted(script, provider=provider)
    with pytest.raises(AgentStartFailed, match="GEMINI_API_KEY") as caught:
        await transport.open(harness.order())
    assert caught.value.phase is Phase.SESSION_OPEN
    assert transport.sessions == 0


async def test_w29b_the_child_sees_only_what_is_allowed(
    harness: TransportHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_OF_THE_GATEWAY", "x")
    transport = await harness.demo()
    assert await say(await transport.open(harness.order()), "hello") == "echo: hello"
    assert "MODEL_OF_THE_GATEWAY" not in psutil.Process(transport.pid).environ()


async def test_no_half_of_a_secret_is_quoted_from_what_a_wrong_program_says(harness: TransportHarness) -> None:
    secret = "Zq7" + "pLm3xR8vKt2nWd5jYc9hBf4g" * 2
    plan = harness.script_plan("print('x' * 150 + ' bad key ' + os.environ['SOME_API_KEY'], flush=True)")
    command = dataclasses.replace(plan.command, env={**plan.command.env, "SOME_API_KEY": secret})
    with pytest.raises(AgentStartFailed) as caught:
        await harness.start(dataclasses.replace(plan, command=command))
    assert "bad key" in str(caught.value)
    assert secret[:6] not in str(caught.value)


READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
WRITES_ITS_LOGIN = """
for method, frame, session in frames():
    try:
        open("login", "w").write("old")
        text(session, "written")
    except OSError as error:
        text(session, type(error).__name__ + " " + str(error.errno))
    done(frame)
"""


def runs(line: tuple[str, ...]) -> bool:
    """Whether it ends well; where the machine forbids it or has no such program, it does not."""
    return shutil.which(line[0]) is not None and subprocess.run(line, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("shut", [False, True])
async def test_w35_a_login_that_the_prefix_makes_read_only_is_not_written_back(
    harness: TransportHarness, shut: bool
) -> None:
    login = harness.folder / "login"
    login.write_text("new")
    wrapper = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, str(login))
    if not runs((*wrapper, "true")):
        pytest.skip("no user namespaces here")
    plan = harness.script_plan(WRITES_ITS_LOGIN)
    settings = dataclasses.replace(plan.settings, prefix=wrapper if shut else ())
    transport = await harness.start(harness.plan(plan.provider, settings))
    said = await say(await transport.open(harness.order()), "hello")
    assert (said, login.read_text()) == (("OSError 30", "new") if shut else ("written", "old"))
