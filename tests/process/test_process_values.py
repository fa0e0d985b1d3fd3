"""The plain parts of a process: command, environment, stderr tail, ladder, wards, ledger names."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.process import (
    Command,
    CommandError,
    Ending,
    Exit,
    ProcessSupervisor,
    RuntimeDirError,
    StopDeadlines,
    build_environment,
)
from ostler.process.environment import secret_values
from ostler.process.ledger import Run, SpawnLedger, StaleRun, find_stale_runs, prepare
from ostler.process.reaper import tracked
from ostler.process.reaper.pipe_inodes import PipeInodes
from ostler.process.reaper.proc import ProcessIdentity
from ostler.process.reaper.tracked import TrackedProcesses
from ostler.process.stderr import MAX_BYTES, MAX_LINE, MAX_LINES, StderrTail
from ostler.wire.redaction import Redaction


def test_a_child_gets_the_allow_list_and_what_its_provider_declares() -> None:
    parent = {
        "HOME": "/h",
        "LC_ALL": "C",
        "XDG_CONFIG_HOME": "/x",
        "OPENAI_API_KEY": "theirs",
        "PATH": "/p",
        "MINE": "m",
    }
    assert build_environment(parent, passed=("MINE",), extra={"HOME": "/other"}) == {
        "HOME": "/other",
        "LC_ALL": "C",
        "XDG_CONFIG_HOME": "/x",
        "PATH": "/p",
        "MINE": "m",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }


def test_secrets_are_known_by_their_names() -> None:
    env = {"GEMINI_API_KEY": "a" * 20, "PATH": "/usr/bin:/bin", "GH_TOKEN": "short"}
    assert secret_values(env) == ("a" * 20,)


@pytest.mark.parametrize("argv", [(), ("",), ("a\0b",), ("a\ud800b",)])
def test_a_command_no_kernel_takes_is_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        Command(argv, Path("/"), {})


def test_a_command_shows_no_environment() -> None:
    assert "hush" not in repr(Command(("x",), Path("/"), {"KEY": "hush"}, secrets=("hush",)))


@pytest.mark.parametrize(
    "line",
    [
        "key hushhush-1234 here",
        "OPENAI_API_KEY=abcdef123456",
        "Authorization: Bearer abcdefghijkl",
        "using sk-abcdefghijklmnop",
        '{"token": "abcdef123456"}',
        "AIzaSyA1234567890abcdefghijklmnopqrstuvw",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    ],
)
def test_keys_in_stderr_are_blotted_out(line: str) -> None:
    tail = StderrTail(Redaction(["hushhush-1234"]))
    tail.feed(line.encode() + b"\n")
    (shown,) = tail.tail()
    assert "[redacted]" in shown
    for part in ("hushhush", "abcdef", "AIzaSy", "c2lnb"):
        assert part not in shown


def test_ordinary_lines_stay_as_they_are() -> None:
    tail = StderrTail(Redaction())
    lines = ["Error: cannot find module 'x'", "token expired", "at main.js:10:3", "warning: 3 keys loaded"]
    tail.feed("\n".join(lines).encode())
    assert tail.tail() == lines


def test_a_secret_across_the_cut_of_a_long_line_leaves_no_half() -> None:
    tail = StderrTail(Redaction(["hushhushhush"]))
    tail.feed(b"x" * (MAX_LINE - 6) + b"hushhushhush" + b"y" * 10_000 + b"\n")
    (shown,) = tail.tail()
    assert "hush" not in shown


def test_an_excerpt_leaves_no_half_of_a_secret_and_is_short() -> None:
    shown = Redaction(["hushhushhush"]).excerpt("x" * 14 + "hushhushhush" + "y" * 5_000_000, 20)
    assert shown == "x" * 14 + "[redac"


@given(st.lists(st.binary(max_size=5_000), max_size=30))
def test_w37a_the_tail_is_bounded_however_it_arrives(chunks: list[bytes]) -> None:
    tail = StderrTail(Redaction())
    for chunk in chunks:
        tail.feed(chunk)
    shown = tail.tail()
    assert len(shown) <= MAX_LINES
    assert sum(map(len, shown)) <= MAX_BYTES + MAX_LINE


@given(st.lists(st.text("ab", max_size=6), min_size=1, max_size=20), st.data())
def test_lines_do_not_depend_on_how_the_bytes_arrive(lines: list[str], data: st.DataObject) -> None:
    whole = "\n".join(lines).encode() + b"\n"
    cut = data.draw(st.integers(0, len(whole)))
    tail = StderrTail(Redaction())
    tail.feed(whole[:cut])
    tail.feed(whole[cut:])
    assert tail.tail() == lines


def test_e13_the_ladder_always_ends_in_a_kill() -> None:
    assert [rung.ending for rung in StopDeadlines().steps()] == [
        Ending.ON_EOF,
        Ending.ON_TERMINATE,
        Ending.ON_KILL,
    ]
    assert [rung.ending for rung in StopDeadlines(eof=0, terminate=0, kill=0).steps()] == [Ending.ON_KILL]


def test_an_exit_reads_as_what_happened() -> None:
    killed = Exit(7, None, signal.SIGKILL, Ending.BY_ITSELF, 1.25)
    assert str(killed) == "pid 7 ended by itself with signal SIGKILL after 1.2 s"


def test_the_reaper_understands_what_the_gateway_says() -> None:
    told = TrackedProcesses()
    pipe_inodes = [PipeInodes(n, n + 1, n + 2) for n in (100, 200, 300)]
    expected = [tracked.expect(number, leash) for number, leash in enumerate(pipe_inodes, 1)]
    text = expected[0] + tracked.track_line(1, ProcessIdentity(10, 20)) + expected[1] + expected[2] + tracked.gone(3)
    for byte in text.encode() + b"nonsense\nward x y z\nexpect 4 1 2\nexpect 5 1 2 x\n":
        told.feed(bytes([byte]))
    assert told.identities == [ProcessIdentity(10, 20)]
    assert told.pipe_inodes == pipe_inodes[:2]
    assert told.any_pending
    told.feed(tracked.gone(2).encode())
    assert told.pipe_inodes == pipe_inodes[:1]
    assert not told.any_pending


def test_the_name_of_a_run_says_all_about_it() -> None:
    run = Run.of_this_process("gw-1")
    assert Run.parse(run.name) == run
    assert Run.parse("something else") is None


def estate_of_a_dead_run(runtime_dir: Path, lines: str, now: float) -> StaleRun:
    """What the next start reads when the only record of a dead run holds `lines`."""
    prepare(runtime_dir)
    here = Run.of_this_process("dead")
    dead = Run("dead", ProcessIdentity(here.owner.pid, here.owner.start - 1), here.boot, here.namespace)
    ledger = SpawnLedger.open(runtime_dir, dead)
    (ledger.folder / "1").write_text(lines)
    os.utime(ledger.folder / "1", (1000.0, 1000.0))
    (estate,) = find_stale_runs(runtime_dir, here, now)
    return estate


@pytest.mark.parametrize(
    "torn", ["", "{", '{"label": "x"}', '{"label": "x", "leash": [1, 2]}', '{"leash": ["a", 2, 3]}']
)
def test_w30d_a_torn_record_still_says_that_a_start_is_torn(torn: str, tmp_path: Path) -> None:
    estate = estate_of_a_dead_run(tmp_path / "run", torn, now=1001.0)
    assert (estate.pending, estate.tracked, estate.pipe_inodes) == (True, (), ())


def test_w30d_the_leash_is_on_record_before_the_start(tmp_path: Path) -> None:
    estate = estate_of_a_dead_run(tmp_path / "run", '{"label": "x", "leash": [7, 8, 9]}\n', now=1001.0)
    assert (estate.pending, estate.pipe_inodes) == (True, (PipeInodes(7, 8, 9),))


def test_w32_a_leash_of_long_ago_may_be_anybodys_pipe(tmp_path: Path) -> None:
    record = '{"label": "x", "leash": [7, 8, 9]}\n{"pid": 5, "start": 6}\n'
    estate = estate_of_a_dead_run(tmp_path / "run", record, now=1000.0 + 3601)
    assert (estate.tracked, estate.pipe_inodes) == ((ProcessIdentity(5, 6),), ())


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "x" * 65])
async def test_an_instance_id_is_a_plain_word(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="instance id"):
        await ProcessSupervisor.open(tmp_path / "run", name)


def test_a_runtime_dir_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    with pytest.raises(RuntimeDirError, match="0755"):
        prepare(shared)
    shared.chmod(0o700)
    prepare(shared)
    link = tmp_path / "link"
    link.symlink_to(shared)
    with pytest.raises(RuntimeDirError, match="not a directory"):
        prepare(link)


def test_n31_long_lines_are_blotted_out_when_somebody_asks_and_not_while_they_come() -> None:
    class Counting(Redaction):
        asked = 0

        def __call__(self, text: str) -> str:
            self.asked += 1
            return super().__call__(text)

    redact = Counting(["hushhushhush"])
    tail = StderrTail(redact)
    for _ in range(1000):
        tail.feed(b"e " * (MAX_LINE // 2 - 2) + b"hushhushhush" + b" e" * 4500 + b"\n")
    assert redact.asked == 0
    last = tail.tail(3)
    assert redact.asked == 3
    assert all("hush" not in line and len(line) == MAX_LINE for line in last)
    assert sum(map(len, tail.tail())) <= MAX_BYTES
