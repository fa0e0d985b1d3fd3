"""The demo agent misbehaving by order and by flag: each fault is exactly what its name says."""

import json
import os
import signal
import stat
from pathlib import Path

import psutil
import pytest

from tests.support.demo_driver import PATIENCE, Driver, Gone, texts


def started(tmp_path: Path, *flags: str, oracle: bool = False) -> Driver:
    return Driver(*flags, state=tmp_path, oracle=oracle)


@pytest.mark.parametrize(("order", "code"), [("!die", 1), ("!die 0", 0), ("!die 77", 77)])
def test_die_ends_the_process_in_mid_sentence(tmp_path: Path, order: str, code: int) -> None:
    with started(tmp_path) as agent:
        session = agent.open()
        number = agent.begin(session, f"said\n{order}\nunsaid")
        with pytest.raises(Gone):
            agent.until(number)
        assert agent.wait() == code
        assert "told to die" in agent.stderr()
        assert texts(agent.frames, session) == ["echo: said"]


def test_hang_never_answers_but_the_others_do(tmp_path: Path) -> None:
    with started(tmp_path) as agent:
        stuck, free = agent.open(), agent.open()
        number = agent.begin(stuck, "!hang")
        agent.notify("session/cancel", {"sessionId": stuck})
        assert agent.prompt(free, "free") == "echo: free"
        assert not any(frame.get("id") == number for frame in agent.frames if "method" not in frame)
        agent.end_input()
        assert agent.wait() == 0


def test_hang_all_takes_the_whole_process_along_until_a_signal(tmp_path: Path) -> None:
    with started(tmp_path) as agent:
        stuck, free = agent.open(), agent.open()
        agent.begin(stuck, "seen\n!hang all")
        agent.frame()
        agent.begin(free, "unanswered")
        agent.end_input()
        agent.process.send_signal(signal.SIGTERM)
        assert agent.wait() == -signal.SIGTERM
        with pytest.raises(Gone):
            agent.frame()


def test_junk_bad_utf8_and_a_big_line_are_all_followed_by_the_answer(tmp_path: Path) -> None:
    with started(tmp_path) as agent:
        session = agent.open()
        assert agent.prompt(session, "!junk\nafter") == "echo: after"
        assert len(agent.junk) == 5
        assert agent.prompt(session, "!badutf8\nafter") == "echo: after"
        assert b"\xff\xfe" in agent.junk[-1]
        _, before = agent.until(agent.begin(session, "!bigline 2.5\nafter"))
        assert [len(text) for text in texts(before, session)] == [5 << 19, len("echo: after")]


def test_stderr_is_flooded_with_at_least_what_was_ordered(tmp_path: Path) -> None:
    with started(tmp_path) as agent:
        assert agent.prompt(agent.open(), "!stderr 3\nafter") == "echo: after"
        agent.end_input()
        agent.wait()
        assert 3 << 20 <= len(agent.stderr()) < (3 << 20) + (1 << 17)


def test_fork_leaves_a_child_in_the_group_that_ignores_sigterm(tmp_path: Path) -> None:
    with started(tmp_path) as agent:
        word, pid = agent.prompt(agent.open(), "!fork").split()
        child = psutil.Process(int(pid))
        try:
            assert word == "fork"
            assert os.getpgid(child.pid) == agent.process.pid
            ignored = int(Path(f"/proc/{pid}/status").read_text().split("SigIgn:")[1].split()[0], 16)
            assert ignored & 1 << (signal.SIGTERM - 1)
            agent.end_input()
            agent.wait()
            assert child.is_running()
        finally:
            child.kill()


def test_daemon_leaves_an_orphan_in_a_session_of_its_own(tmp_path: Path) -> None:
    with started(tmp_path) as agent:
        word, pid = agent.prompt(agent.open(), "!daemon").split()
        orphan = psutil.Process(int(pid))
        try:
            assert word == "daemon"
            assert os.getsid(orphan.pid) != os.getsid(agent.process.pid)
            assert orphan.pid not in [child.pid for child in psutil.Process(agent.process.pid).children(recursive=True)]
        finally:
            orphan.kill()


def test_the_start_can_be_refused_and_its_abilities_taken(tmp_path: Path) -> None:
    with started(tmp_path, "--refuse-initialize") as agent:
        assert "refuse" in agent.refused("initialize", {"protocolVersion": 1})["message"]
    with started(tmp_path, "--no-close", "--no-load", oracle=True) as agent:
        able = agent.initialize()["agentCapabilities"]
        assert able["loadSession"] is False
        assert set(able["sessionCapabilities"]) == {"list", "delete"}
        session = agent.open()
        params = {"sessionId": session, "cwd": agent.cwd, "mcpServers": []}
        assert agent.refused("session/close", {"sessionId": session})["code"] == -32601
        assert agent.refused("session/load", params)["code"] == -32601
        assert agent.refused("session/resume", params)["code"] == -32601


def test_delays_hold_back_one_answer_and_nothing_else(tmp_path: Path) -> None:
    flags = ("--boot-delay", "0.05", "--delay-initialize", "0.2", "--slow-session-new=0.2")
    with started(tmp_path, *flags) as agent:
        slow = agent.send("initialize", {"protocolVersion": 1})
        assert agent.ask("session/list", {})["sessions"] == []
        agent.until(slow)
        opening = agent.send("session/new", {"cwd": agent.cwd, "mcpServers": []})
        agent.ask("session/list", {})
        agent.until(opening)


def test_exit_after_serves_so_many_sessions(tmp_path: Path) -> None:
    with started(tmp_path, "--exit-after", "2") as agent:
        agent.open()
        assert agent.prompt(agent.open(), "x") == "echo: x"
        number = agent.send("session/new", {"cwd": agent.cwd, "mcpServers": []})
        with pytest.raises(Gone):
            agent.until(number)
        assert agent.wait() == 1


def test_the_first_starts_can_fail(tmp_path: Path) -> None:
    flags = ("--fail-first-starts", "2", "--fail-state", str(tmp_path / "starts"))
    for _ in range(2):
        with started(tmp_path, *flags) as agent:
            assert agent.wait() == 1
    with started(tmp_path, *flags) as agent:
        agent.initialize()


def test_stdin_eof_and_sigterm_can_be_ignored(tmp_path: Path) -> None:
    with started(tmp_path, "--ignore-eof", "--ignore-term") as agent:
        number = agent.begin(agent.open(), "!sleep 0.3\nstill here")
        agent.end_input()
        agent.process.send_signal(signal.SIGTERM)
        _, before = agent.until(number)
        assert before[-1]["params"]["update"]["content"]["text"] == "echo: still here"
        assert agent.process.poll() is None


@pytest.mark.parametrize(
    "flags", [["--nonsense"], ["--boot-delay", "soon"], ["--record"], ["--fail-first-starts", "1"]]
)
def test_a_wrong_command_line_says_so_and_exits_2(tmp_path: Path, flags: list[str]) -> None:
    with started(tmp_path, *flags) as agent:
        assert agent.wait() == 2
        assert flags[0] in agent.stderr()


def test_a_record_holds_who_what_and_which_tools(tmp_path: Path) -> None:
    record = tmp_path / "record"
    peer = str(Path(__file__).parents[1] / "support" / "mcp_peer.py")
    server = {"name": "peer", "command": "python3", "args": ["-I", peer], "env": []}
    with started(tmp_path, "--record", str(record)) as agent:
        agent.write(b"junk\n")
        session = agent.open(server)
        agent.prompt(session, "!tools\n!stream 2")
        agent.end_input()
        agent.wait()
        pid = agent.process.pid
    entries = [json.loads(line) for line in record.read_text().splitlines()]
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert {entry["pid"] for entry in entries} == {pid}
    assert entries[0]["event"] == "start"
    assert " ".join(entries[0]["argv"]).count("agent demo") == 1
    assert "PATH" in entries[0]["env"]
    assert entries[-1]["event"] == "end"
    assert [entry["line"] for entry in entries if entry["event"] == "junk"] == ["junk\n"]
    tools = [entry for entry in entries if entry["event"] == "tools"]
    assert [(entry["session"], entry["tools"]) for entry in tools] == [
        (session, ["add", "boom", "grow", "token", "wait"])
    ]
    assert [entry["frame"]["method"] for entry in entries if entry["event"] == "in"] == [
        "session/new",
        "session/prompt",
    ]
    assert [entry["frame"] for entry in entries if entry["event"] == "out"] == agent.frames


def test_e15_a_dead_client_ends_the_agent_and_its_servers(tmp_path: Path) -> None:
    with started(tmp_path) as agent:
        session = agent.open({"name": "cat", "command": "/bin/cat", "args": [], "env": []})
        agent.begin(session, "!stream 10000000")
        family = psutil.Process(agent.process.pid).children(recursive=True)
        agent.end_input()
        assert agent.wait() == 0
        assert psutil.wait_procs(family, PATIENCE)[1] == []
