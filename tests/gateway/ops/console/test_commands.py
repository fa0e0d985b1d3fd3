"""`ostler pool` and `ostler top` against `ostler serve`, as processes: words, JSON, exit codes, a terminal.

Those that are watched begin with a fresh interpreter, the others are copies (`tests/support/copies.py`).
"""

import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import copies
from tests.support.copies import Copy
from tests.support.serve_command import Command, command, environment

DONE, WRONG, NOBODY, REFUSED, UNSURE = 0, 2, 3, 4, 5
PATIENCE = 300.0


def ostler(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command beside the gateway."""
    return copies.run(
        [*words, "--data-dir", str(folder / "data")], cwd=folder, env=environment(folder, {}), timeout=300
    )


def told(folder: Path, *words: str) -> dict[str, Any]:
    """The JSON of a command that must succeed."""
    done = ostler(folder, *words, "--json")
    assert done.returncode == DONE, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Command]:
    """A gateway that has answered one turn."""
    with command(tmp_path) as gateway:
        with gateway.http() as http:
            assert http.post("/v1/responses", json={"model": "demo", "input": "hello"}).status_code == 200
        yield gateway


def test_show_why_and_the_orders_in_words_and_json(running: Command, tmp_path: Path) -> None:
    shown = ostler(tmp_path, "pool", "show", "--turns", "5")
    assert shown.returncode == DONE
    assert re.search(r"^ready: 1 of 8 processes, 1 seats leased", shown.stdout)
    assert "completed" in shown.stdout
    (key,) = told(tmp_path, "pool", "show")["keys"]
    (process,) = key["processes"]
    assert process["pid"] in [agent.pid for agent in running.agents()]
    why = ostler(tmp_path, "pool", "why", "demo")
    assert re.search(r"granted +cold +no_process", why.stdout)
    assert told(tmp_path, "pool", "warm", key["key"], "--seats", "2")["verb"] == "warm"
    (line,) = told(tmp_path, "pool", "why", "demo")["reasons"]["lines"]
    assert line["floor"] == 2
    assert told(tmp_path, "pool", "pause")["key"] is None
    assert "paused" in ostler(tmp_path, "pool", "show").stdout
    assert "the whole pool is paused" in ostler(tmp_path, "pool", "why", "demo").stdout
    assert told(tmp_path, "pool", "resume")["verb"] == "resume"
    killed = ostler(tmp_path, "pool", "kill", str(process["process"]))
    assert (killed.returncode, killed.stderr) == (DONE, "")
    assert "was killed" in killed.stdout


def test_exit_codes_say_what_went_wrong(running: Command, tmp_path: Path) -> None:
    unknown = ostler(tmp_path, "pool", "kill", "99", "--yes")
    assert (unknown.returncode, unknown.stdout) == (REFUSED, "")
    assert "the pool has no process 99; it has: " in unknown.stderr
    assert ostler(tmp_path, "pool", "drain", "demo/never").returncode == REFUSED
    assert ostler(tmp_path, "pool", "kill", "first").returncode == WRONG
    assert ostler(tmp_path, "pool", "fly").returncode == WRONG
    assert running.end() == 0
    for words in (("pool", "show"), ("pool", "why", "demo"), ("pool", "watch"), ("top",)):
        nobody = ostler(tmp_path, *words)
        assert (nobody.returncode, nobody.stdout) == (NOBODY, "")
        assert nobody.stderr.startswith(f"ostler {words[0]}: no gateway runs with the data folder {tmp_path / 'data'}")


def test_the_socket_is_for_its_owner_and_goes_with_the_gateway(running: Command, tmp_path: Path) -> None:
    place = tmp_path / "data" / "admin.sock"
    assert stat.filemode(place.stat().st_mode) == "srw-------"
    assert stat.filemode(place.parent.stat().st_mode) == "drwx------"
    running.end()
    assert not place.exists()


def test_a_socket_that_a_killed_gateway_left_is_replaced(tmp_path: Path) -> None:
    with command(tmp_path) as first:
        first.end(signal.SIGKILL)
    assert (tmp_path / "data" / "admin.sock").exists()
    assert ostler(tmp_path, "pool", "show").returncode == NOBODY
    with command(tmp_path):
        assert ostler(tmp_path, "pool", "show").returncode == DONE


def test_f13_a_folder_whose_name_is_too_long_for_a_socket_is_no_hindrance(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    with command(deep):
        assert ostler(deep, "pool", "show").returncode == DONE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_not_answered_even_through_an_open_folder(running: Command, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for place in (*folder.parents, folder):
        with contextlib.suppress(PermissionError):
            place.chmod(place.stat().st_mode | 0o055)
    (folder / "admin.sock").chmod(0o666)
    code = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); os.setuid(65534); s.settimeout(300); s.connect(sys.argv[1])\n"
        "try:\n"
        " s.sendall(b'GET /admin/pool HTTP/1.1\\r\\nhost: localhost\\r\\n\\r\\n'); print(len(s.recv(1000)))\n"
        "except OSError: print(0)\n"
    )
    line = [sys.executable, "-c", code, str(folder / "admin.sock")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")
    running.end()
    assert [line for line in running.logged if line.get("level") in ("error", "critical")] == []


def test_watch_tells_each_change_as_a_line(running: Command, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "ostler.gateway", "pool", "watch", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(line, env=environment(tmp_path, {}), stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("ready: ")
        assert ostler(tmp_path, "pool", "pause").returncode == DONE
        assert watching.stdout.readline().startswith("paused: ")
        running.end()
        assert watching.wait(300) == DONE


@contextmanager
def terminal(folder: Path, *words: str, whole: bool = False) -> Iterator[tuple["Copy | subprocess.Popen[bytes]", int]]:
    """A command on a terminal of its own, and the other end of it."""
    ours, theirs = pty.openpty()
    line = [*words, "--data-dir", str(folder / "data")]
    heard = {**environment(folder, {}), "COLUMNS": "100", "LINES": "30", "TERM": "xterm"}
    process: Copy | subprocess.Popen[bytes]
    if whole:
        line = [*copies.FRESH, *line]
        process = subprocess.Popen(line, env=heard, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    else:
        process = Copy(line, cwd=folder, env=heard, stdin=theirs, stdout=theirs, stderr=theirs, in_terminal=True)
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def until(handle: int, words: str) -> str:
    """Read the terminal until it shows this. Patiently: the command starts meanwhile, which takes its time on a busy
    machine."""
    seen = b""
    while words.encode() not in seen:
        assert select.select([handle], [], [], PATIENCE)[0], seen
        seen += os.read(handle, 4096)
    return seen.decode()


def test_kill_asks_a_person_first(running: Command, tmp_path: Path) -> None:
    (process,) = told(tmp_path, "pool", "show")["keys"][0]["processes"]
    number = str(process["process"])
    for answer, code in ((b"n\n", UNSURE), (b"\n", UNSURE), (b"y\n", DONE)):
        with terminal(tmp_path, "pool", "kill", number) as (asking, handle):
            until(handle, "? [y/N] ")
            os.write(handle, answer)
            assert asking.wait(PATIENCE) == code


def test_ctrl_c_at_the_question_does_nothing_and_says_so(running: Command, tmp_path: Path) -> None:
    (process,) = told(tmp_path, "pool", "show")["keys"][0]["processes"]
    with terminal(tmp_path, "pool", "kill", str(process["process"])) as (asking, handle):
        until(handle, "? [y/N] ")
        os.kill(asking.pid, signal.SIGINT)
        assert asking.wait(300) in (-signal.SIGINT, 130)
    assert told(tmp_path, "pool", "show")["keys"][0]["processes"][0]["process"] == process["process"]


def test_top_fills_the_screen_and_leaves_it_as_it_was(running: Command, tmp_path: Path) -> None:
    with terminal(tmp_path, "top", whole=True) as (top, handle):
        first = until(handle, "demo/demo in ")
        assert first.startswith("\x1b[?1049h")
        with running.http() as http:
            http.post("/v1/responses", json={"model": "demo", "input": "again"})
        until(handle, "2 seats leased")
        os.kill(top.pid, signal.SIGINT)
        until(handle, "\x1b[?1049l")
        assert top.wait(PATIENCE) == DONE


def test_a_reader_that_leaves_early_is_no_error(running: Command, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "ostler.gateway", "pool", "watch", "--json", "--data-dir", str(tmp_path / "data")]
    ours, theirs = socket.socketpair()
    with subprocess.Popen(line, env=environment(tmp_path, {}), stdout=theirs, stderr=subprocess.PIPE) as watching:
        theirs.close()
        ours.recv(10)
        ours.close()
        assert ostler(tmp_path, "pool", "pause").returncode == DONE
        assert watching.wait(300) == DONE
        assert watching.stderr is not None
        assert watching.stderr.read() == b""
