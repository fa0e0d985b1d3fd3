"""Signals at any moment of a start, and what SIGHUP reads again: a process of its own, told from outside."""

import os
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.serve_command import Command, command, environment, serve_line
from tests.support.served import events_of

KEY, OTHER = "a-key-of-more-than-16-characters", "another-key-of-16-characters"
BODY = {"model": "demo", "input": "hello"}
DEADLINE = 300.0


def until(condition: Callable[[], object], what: str) -> None:
    """Look as often as possible: the moment is short."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, what


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for it. Of SIGINT that says nothing, Python itself has one from the start."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(line for line in lines if line.startswith("SigCgt:")).split()[1]
    return bool(int(mask, 16) >> (number - 1) & 1)


def left(folder: Path) -> list[str]:
    """Sockets and processes that somebody forgot."""
    paths = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
    sockets = [str(path) for path in paths if stat.S_ISSOCK(path.lstat().st_mode)]
    mine = str(folder)
    return sockets + [str(each.info) for each in psutil.process_iter(["cmdline"]) if mine in str(each.info["cmdline"])]


@contextmanager
def starting(folder: Path, **environ: str) -> Iterator["subprocess.Popen[str]"]:
    """`ostler serve` on a unix socket, from its first moment on."""
    line = serve_line(folder, ["--uds", str(folder / "s")])
    with subprocess.Popen(
        line, cwd=folder, env=environment(folder, environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("", signal.SIGTERM),
        ("s", signal.SIGINT),
        ("data/gateway.lock", signal.SIGTERM),
        ("data/ostler.db", signal.SIGINT),
        ("data/run", signal.SIGTERM),
        ("data/admin.sock", signal.SIGINT),
    ],
)
def test_a_start_that_is_told_to_stop_ends_in_good_order(tmp_path: Path, number: int, moment: str) -> None:
    with starting(tmp_path) as process:
        if moment:
            until((tmp_path / moment).exists, moment)
        else:
            until(lambda: catches(process.pid, signal.SIGHUP), "the first moment in which signals are heard")
        process.send_signal(number)
        _, said = process.communicate(timeout=DEADLINE)
        assert (process.returncode, "Traceback" in said) == (0, False), said
    assert left(tmp_path) == []


def test_a_start_that_hangs_is_called_off(tmp_path: Path) -> None:
    mute = '["python3", "-c", "import time; time.sleep(600)"]'
    with starting(tmp_path, OSTLER_TOOLS__MCP__MUTE__COMMAND=mute, OSTLER_TOOLS__MCP__MUTE__TIMEOUT="300") as process:
        until(lambda: psutil.Process(process.pid).children(recursive=True), "the tool server is started")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=DEADLINE)
        assert (process.returncode, "Traceback" in said) == (0, False), said
    assert left(tmp_path) == []


def test_e23_a_second_signal_stops_the_turns_and_answers_their_clients(tmp_path: Path) -> None:
    begun = threading.Event()

    def ask(http: httpx.Client) -> dict[str, Any]:
        lines = []
        body = {"model": "demo", "input": "begun\n!sleep 60", "stream": True}
        with http.stream("POST", "/v1/responses", json=body) as answer:
            for line in answer.iter_lines():
                lines.append(line)
                if "output_text.delta" in line:
                    begun.set()
        return events_of("\n".join(lines))[-1]

    with command(tmp_path) as running, running.http() as http, ThreadPoolExecutor() as clients:
        asked = clients.submit(ask, http)
        assert begun.wait(20)
        running.process.send_signal(signal.SIGINT)
        with running.http() as other:
            until(lambda: other.get("/readyz").status_code == 503, "the first signal is heard")
        assert running.end(signal.SIGINT) == 0
        last = asked.result(10)
        assert (last["type"], last["response"]["status"]) == ("response.incomplete", "incomplete")
        assert last["response"]["incomplete_details"]["cause"] == "gateway_shutdown"
    assert [line for line in running.logged if "exception" in str(line).lower()] == []
    assert [line for line in running.logged if line.get("level") in ("warning", "error")] == []


def write(folder: Path, text: str) -> None:
    """A whole key file."""
    file = folder / "data" / "keys.toml"
    file.touch(mode=0o600)
    file.write_text(text)


def table(name: str, key: str) -> str:
    return f'[[keys]]\nname = "{name}"\nsha256 = "{sha256(key.encode()).hexdigest()}"\n'


def status(http: httpx.Client, key: str) -> int:
    return http.post("/v1/responses", json=BODY, headers={"authorization": f"Bearer {key}"}).status_code


def reload(running: Command, said: str) -> None:
    """Send SIGHUP and wait for the line that tells what came of it."""
    before = sum(said in str(line) for line in running.logged)
    running.process.send_signal(signal.SIGHUP)
    until(lambda: sum(said in str(line) for line in running.logged) > before, said)


def test_keys_are_read_again_and_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    write(tmp_path, table("ann", KEY))
    with command(tmp_path) as running, running.http() as http:
        assert (status(http, KEY), status(http, OTHER)) == (200, 401)
        write(tmp_path, table("ann", KEY) + table("bob", OTHER))
        assert status(http, OTHER) == 401
        reload(running, "2 are in force")
        assert (status(http, KEY), status(http, OTHER)) == (200, 200)
        for broken, said in [
            ("[[keys]]\nnmae = 'x'\n", "nmae"),
            ("keys = [", "is no TOML"),
            (table("ann", KEY) + 'permissions = "maybe"\n', "maybe"),
            (table("ann", KEY) * 2, "the same name"),
            ("", "there are no keys any more"),
        ]:
            write(tmp_path, broken)
            reload(running, said)
            assert (status(http, KEY), status(http, OTHER)) == (200, 200)
        write(tmp_path, table("bob", OTHER))
        reload(running, "1 are in force")
        assert (status(http, KEY), status(http, OTHER)) == (401, 200)
        assert running.end() == 0


def test_a_gateway_without_keys_gets_its_first_one(tmp_path: Path) -> None:
    with command(tmp_path) as running, running.http() as http:
        assert http.post("/v1/responses", json=BODY).status_code == 200
        write(tmp_path, table("ann", KEY))
        reload(running, "1 are in force")
        assert http.post("/v1/responses", json=BODY).status_code == 401
        assert status(http, KEY) == 200
        assert "Sign in" in http.get("/").text
        assert running.end() == 0
