"""`ostler doctor` with real processes: sound agents, agents that leak, that have no key, that are not there."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.gateway.ops.doctor.report import AgentReport, Severity
from ostler.gateway.ops.doctor.trial import Bench, try_agent
from ostler.pool.launch.configuration import PoolSettings
from tests.support import copies
from tests.support.serve_command import environment, is_demo
from tests.support.transport_harness import PRELUDE
from tests.support.waiting import eventually

TALKS = """
import subprocess
def with_tools(server):
    environ = {**os.environ, **{one["name"]: one["value"] for one in server["env"]}}
    relay = subprocess.Popen([server["command"], *server["args"]], env=environ, stdin=-1, stdout=-1, text=True)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    for number, (method, params) in enumerate((("initialize", hello), ("tools/list", {}))):
        print(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}), file=relay.stdin)
        relay.stdin.flush()
        relay.stdout.readline()
    return relay
relays = []
for method, frame, session in frames("session/new"):
    if method == "session/new":
        relays += [with_tools(server) for server in frame["params"]["mcpServers"]]
        answer(frame, {"sessionId": f"s{len(relays)}"})
    elif method == "session/prompt":
        words = " ".join(block.get("text", "") for block in frame["params"]["prompt"])
        {answer}
        done(frame)
"""
FORGETS = 'text(session, "echo: OK")'
LEAKS = """
        with open(MEMORY, "a+") as memory:
            memory.write(words + " | ")
            memory.seek(0)
            text(session, memory.read())
"""


def doctor(folder: Path, *words: str, config: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run it with this configuration."""
    (folder / "ostler.toml").write_text(config)
    line = ["doctor", *words, "--data-dir", str(folder / "data")]
    return copies.run(line, cwd=folder, env=environment(folder, environ))


def report(folder: Path, *words: str, config: str = "", **environ: str) -> tuple[int, dict[str, Any]]:
    """Its exit code and the one agent that was named."""
    done = doctor(folder, *words, "--json", config=config, **environ)
    document = json.loads(done.stdout)
    (agent,) = document["agents"]
    # What it may do is said of every agent, see `test_n43_...`.
    said = [finding for finding in agent["findings"] if "permission level" not in finding["what"]]
    agent = {**agent, "findings": said}
    assert document["healthy"] is (done.returncode == 0)
    return done.returncode, agent


def scripted(folder: Path, answer: str) -> str:
    """A configuration with a small agent of the test's own."""
    agent = folder / "agent.py"
    script = f"MEMORY = {str(folder / 'memory')!r}\n" + PRELUDE + TALKS.replace("{answer}", answer.strip())
    agent.write_text(script)
    return f"[providers.acp]\ncommand = {json.dumps([sys.executable, '-S', str(agent)])}\n"


def levels(agent: dict[str, Any]) -> list[str]:
    """How bad each finding is."""
    return [finding["level"] for finding in agent["findings"]]


def test_our_own_agent_is_sound_and_its_sessions_are_private(tmp_path: Path) -> None:
    code, agent = report(tmp_path, "demo")
    assert (code, agent["installed"], agent["canary"], agent["findings"]) == (0, True, "private", [])
    assert agent["start_ms"] > 0
    assert agent["version"]
    assert not list((tmp_path / "data").glob("*")) if (tmp_path / "data").exists() else True


def test_wm7_an_agent_that_tells_one_session_of_another_is_found_out(tmp_path: Path) -> None:
    code, agent = report(tmp_path, "acp", config=scripted(tmp_path, LEAKS))
    assert (code, agent["canary"]) == (1, "leak")
    assert "only the other one knew" in agent["findings"][-1]["what"]


def test_an_agent_that_shows_nothing_has_proven_nothing(tmp_path: Path) -> None:
    code, agent = report(tmp_path, "acp", config=scripted(tmp_path, FORGETS))
    assert (code, agent["canary"]) == (0, "unproven")
    assert levels(agent).count("warning") == 2


def test_an_agent_that_cannot_start_is_a_fault_with_its_last_words(tmp_path: Path) -> None:
    code, agent = report(tmp_path, "acp", config=f'[providers.acp]\ncommand = ["{sys.executable}", "-c", "1/0"]\n')
    assert (code, agent["healthy"], agent["canary"]) == (1, False, "not_run")
    assert "ZeroDivisionError" in agent["findings"][-1]["what"]


def test_what_was_measured_is_told_though_the_model_never_answers(tmp_path: Path) -> None:
    silent = scripted(tmp_path, 'print("429: the key has no money", file=sys.stderr, flush=True); time.sleep(1000)')
    for patience in ("10", "40"):  # a busy machine may need more than the first to come that far
        code, agent = report(tmp_path, "acp", "--patience", patience, config=silent)
        if agent["second_session_ms"]:
            break
    assert (code, agent["canary"], agent["turn_ms"]) == (1, "not_run", None)
    assert min(agent[name] for name in ("start_ms", "session_ms", "second_session_ms")) > 0
    said = agent["findings"][-1]
    assert f"not done within {patience} s, while asking both sessions" in said["what"]
    assert "last stderr lines: 429: the key has no money" in said["what"]


def test_what_is_not_installed_is_a_fault_only_where_it_is_wanted(tmp_path: Path) -> None:
    code, agent = report(tmp_path, "gemini-acp", PATH="/usr/bin:/bin")
    assert (code, agent["installed"], levels(agent)) == (1, False, ["fault"])
    assert agent["findings"][0]["fix"].startswith("npm install")
    everything = doctor(tmp_path, "--no-start", PATH="/usr/bin:/bin")
    assert everything.returncode == 0, everything.stdout
    assert "not installed, and not asked for:" in everything.stdout
    wanted = doctor(tmp_path, "--no-start", config='[models]\nfast = "qwen-acp/x"\n', PATH="/usr/bin:/bin")
    assert wanted.returncode == 1
    assert "MISSING" in wanted.stdout


@pytest.fixture
def installed(tmp_path: Path) -> str:
    """A PATH with programs that stand for installed agents, never started here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("gemini", "qwen", "codex", "node"):
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def traps(folder: Path, path: str, *words: str, config: str = "", **environ: str) -> str:
    """All that is found without a start."""
    _, agent = report(folder, *words, "--no-start", config=config, PATH=path, **environ)
    assert agent["installed"]
    return "\n".join(f"{one['level']}: {one['what']} -> {one['fix']}" for one in agent["findings"])


def test_each_trap_is_named_with_its_way_out(tmp_path: Path, installed: str) -> None:
    assert "fault: no key: none of GEMINI_API_KEY, GOOGLE_API_KEY is set" in traps(tmp_path, installed, "gemini-acp")
    assert traps(tmp_path, installed, "gemini-acp", GEMINI_API_KEY="k" * 20) == ""
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "oauth_creds.json").write_text("{}")
    assert traps(tmp_path, installed, "gemini-acp") == ""
    relaunch = '[providers.gemini-acp.env]\nGEMINI_CLI_NO_RELAUNCH = ""\n'
    assert "fault: GEMINI_CLI_NO_RELAUNCH is set to ''" in traps(tmp_path, installed, "gemini-acp", config=relaunch)
    trust = '[providers.gemini-acp.env]\nGEMINI_CLI_TRUST_WORKSPACE = "false"\n'
    assert "GEMINI_CLI_TRUST_WORKSPACE is set to 'false'" in traps(tmp_path, installed, "gemini-acp", config=trust)
    for setting, said in (
        ('[pool]\npermissions = "deny"\n', "every question is answered with no"),
        ('[providers.qwen-acp]\napproval = "agent"\n', "its own configuration decides"),
    ):
        config = setting
        assert said in traps(tmp_path, installed, "qwen-acp", config=config, OPENAI_API_KEY="k" * 20)
    home = '[providers.qwen-acp]\nhome = "/no/such/home"\n'
    assert "no directory that can be written to" in traps(
        tmp_path, installed, "qwen-acp", config=home, OPENAI_API_KEY="k" * 20
    )


def test_n43_doctor_says_what_an_agent_may_do_and_who_is_refused(tmp_path: Path, installed: str) -> None:
    held = doctor(tmp_path, "qwen-acp", "--no-start", PATH=installed, OPENAI_API_KEY="k" * 20)
    assert "permission level workspace: write inside done, write outside asked, command asked" in held.stdout
    plain = doctor(tmp_path, "acp", "--no-start", config=f'[providers.acp]\ncommand = ["{sys.executable}"]\n')
    assert "agents of acp cannot be held to the permission level 'workspace'" in plain.stdout
    assert 'set pool.model_permissions = {"acp/*" = "auto"}' in plain.stdout


def test_a_launcher_without_its_program_is_a_trap(tmp_path: Path, installed: str) -> None:
    script = tmp_path / "codex.js"
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    (tmp_path / "bin" / "codex").unlink()
    (tmp_path / "bin" / "codex").symlink_to(script)
    (tmp_path / "package.json").write_text('{"version": "9.9.9"}')
    said = traps(tmp_path, installed, "codex-app-server", OPENAI_API_KEY="k" * 20)
    assert "is a launcher, and the program behind it was not found" in said
    _, agent = report(tmp_path, "codex-app-server", "--no-start", PATH=installed, OPENAI_API_KEY="k" * 20)
    assert agent["version"] == "9.9.9"


def test_words_and_exit_codes(tmp_path: Path) -> None:
    done = doctor(tmp_path, "demo")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all is well")
    assert "private" in done.stdout
    assert "demo: starting it cold ..." in done.stderr
    assert doctor(tmp_path, "nobody").returncode == 2
    assert doctor(tmp_path, "--fast").returncode == 2
    broken = doctor(tmp_path, "demo", config="[nonsense]\n")
    assert (broken.returncode, broken.stdout) == (1, "")
    assert "unknown key 'nonsense'" in broken.stderr


def test_ctrl_c_ends_what_was_started(tmp_path: Path) -> None:
    slow = '[providers.demo]\nargs = ["--boot-delay", "60"]\nstart_deadline = 100\n'
    (tmp_path / "ostler.toml").write_text(slow)
    line = [sys.executable, "-m", "ostler.gateway", "doctor", "demo", "--data-dir", str(tmp_path / "data")]
    given = environment(tmp_path, {})
    with subprocess.Popen(line, cwd=tmp_path, env=given, stdout=-1, stderr=subprocess.PIPE, text=True) as visit:
        assert visit.stderr is not None
        while "starting it cold" not in visit.stderr.readline():
            pass
        wait_for(lambda: any(is_demo(child) for child in psutil.Process(visit.pid).children(recursive=True)))
        started = psutil.Process(visit.pid).children(recursive=True)
        visit.send_signal(signal.SIGINT)
        assert visit.wait(300) == 130
        assert "what was started is ended" in visit.stderr.read()
    psutil.wait_procs(started, timeout=300)
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in started)


def wait_for(condition: Callable[[], bool]) -> None:
    """What another process does is looked at again and again."""
    asyncio.run(eventually(condition, "a started agent"))


def test_a_secret_of_the_environment_is_nowhere_in_the_report(tmp_path: Path, installed: str) -> None:
    key = "sk-very-secret-0123456789"
    done = doctor(tmp_path, "gemini-acp", "--json", PATH=installed, GEMINI_API_KEY=key)
    assert done.returncode == 1
    assert key not in done.stdout + done.stderr


async def test_a_bridge_that_cannot_be_opened_is_a_finding_and_no_traceback(tmp_path: Path) -> None:
    blank = AgentReport("demo", "demo", wanted=True, installed=True, model="demo")
    settings = PoolSettings()
    bench = Bench(
        tmp_path, settings, environment(tmp_path, {}), time.monotonic, lambda: "word", print, 30, canary=False
    )
    other = Bridge(BridgeSettings(data_directory=tmp_path))
    await other.start()
    try:
        found = await try_agent(blank, bench)
    finally:
        await other.stop()
    (finding,) = found.findings
    assert (finding.level, "another gateway serves" in finding.what) == (Severity.FAULT, True)
    assert not found.healthy


def test_a_visit_leaves_nothing_in_the_data_folder(tmp_path: Path) -> None:
    record = tmp_path / "record"
    code, _ = report(tmp_path, "demo", config=f'[providers.demo]\nargs = ["--record", "{record}"]\n')
    assert code == 0
    started = [line for line in map(json.loads, record.read_text().splitlines()) if line["event"] == "start"]
    assert started
    assert not any("NODE_COMPILE_CACHE" in line["env"] for line in started)
    assert not (tmp_path / "data").exists()
