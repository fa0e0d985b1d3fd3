"""Start, talk, end: one process and the loop."""

import asyncio
import json
import os
import resource
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PosixPath
from typing import ClassVar

import psutil
import pytest

from ostler.process import (
    AgentProcess,
    Command,
    Ending,
    Exit,
    KeeperClosed,
    MissingDirectory,
    MissingProgram,
    NotPermitted,
    NotRunnable,
    ProcessSupervisor,
    ResourcesExhausted,
    StartError,
    StdinClosed,
    StopDeadlines,
    Survivors,
)
from ostler.process.ending import StopStep
from ostler.process.errors import Blind
from ostler.process.reaper.proc import read_stat
from ostler.process.reaper.signals import ProcessTree
from tests.support.processes import ESCAPES, STUBBORN, Recorder, alive, identify, marked, python, running
from tests.support.small_disk import filled, small_disk
from tests.support.waiting import eventually
from tests.support.witness import open_files

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
ANSWER = "print('x', flush=True); import time; time.sleep(600)"


class EofOnly(StopDeadlines):
    """A ladder that a stubborn process outlasts."""

    def steps(self) -> tuple[StopStep, ...]:
        return (StopStep(Ending.ON_EOF, 0.01),)


class NoTimeForTheTree(StopDeadlines):
    """The process itself is given all the time in the world, and what it leaves none."""

    def steps(self) -> tuple[StopStep, ...]:
        return (StopStep(Ending.ON_KILL, 300.0),)


@contextmanager
def no_descriptors() -> Iterator[None]:
    """As many files are open as may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(int(each.name) for each in Path("/proc/self/fd").iterdir()) + 1, hard)
    )
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in held:
            os.close(each)


async def test_bytes_go_both_ways(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    async with running(ECHO, tmp_path, supervisor) as (process, listener):
        process.write(b"hello\n")
        assert await listener.line() == "hello"


async def test_a_large_write_pauses_the_writer_and_resumes_it(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    code = "import sys; sys.stdin.buffer.readline(); print(len(sys.stdin.buffer.read(4_000_000)), flush=True)"
    async with running(code, tmp_path, supervisor) as (process, listener):
        process.write(b"x" * 4_000_000)
        assert listener.levels == [False]
        process.write(b"\n" + b"y" * 4_000_000)
        assert await listener.line() == "4000000"
        assert listener.levels == [False, True]


async def test_a_child_that_never_reads_stdin_blocks_nobody_and_stops(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    async with running(ANSWER, tmp_path, supervisor) as (process, listener):
        await listener.line()
        process.write(b"x" * 4_000_000)
        ended = await process.stop()
        assert ended.ending is Ending.ON_TERMINATE
        with pytest.raises(StdinClosed):
            process.write(b"x")


async def test_what_it_said_last_is_heard_before_its_end(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    async with running("import sys; sys.stdin.readline(); sys.stdout.write('z' * 60_000)", tmp_path, supervisor) as (
        process,
        listener,
    ):
        process.write(b"\n")
        await listener.exited()
        assert len(listener.out) == 60_000


class Mourner(Recorder):
    """Looks at the process when it is told of its end."""

    def process_exited(self, exit: Exit) -> None:  # noqa: A002 (the protocol's name)
        self.stat = read_stat(exit.pid)
        super().process_exited(exit)


async def test_w32_the_pid_stays_ours_until_the_burial(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    """While the zombie stands, no stranger can get its pid, group or session."""
    listener = Mourner()
    process = await AgentProcess.start(python("print('bye', flush=True)", tmp_path), listener, supervisor=supervisor)
    await listener.exited()
    assert listener.stat is not None
    assert listener.stat.dead
    await process.stop()
    assert read_stat(process.pid) is None


async def test_exits_at_once_is_reported_once_with_code_and_stderr(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    code = "import sys; print('no key', file=sys.stderr); sys.exit(3)"
    async with running(code, tmp_path, supervisor) as (process, listener):
        ended = await listener.exited()
        assert (ended.code, ended.signal, ended.ending, ended.stderr) == (
            3,
            None,
            Ending.BY_ITSELF,
            ("no key",),
        )
        assert await process.stop() is ended
        assert listener.exits == [ended]
        with pytest.raises(StdinClosed):
            process.write(b"x")


async def test_a_grandchild_that_holds_stdout_does_not_hold_back_the_exit(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    code = f"import os, time\nif os.fork() == 0:\n    {STUBBORN}\n    time.sleep(600)"
    async with running(code, tmp_path, supervisor) as (_, listener):
        ended = await listener.exited()
        assert ended.code == 0


async def test_a_process_that_closes_stdout_and_stays_is_stopped(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    async with running("import os, time; os.close(1); time.sleep(600)", tmp_path, supervisor) as (_, listener):
        ended = await listener.exited()
        assert ended.ending is Ending.ON_TERMINATE


async def test_sigkill_from_outside_is_a_signal_not_a_code(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    async with running(ANSWER, tmp_path, supervisor) as (process, listener):
        process.kill()
        ended = await listener.exited()
        assert (ended.code, ended.signal, ended.ending) == (None, signal.SIGKILL, Ending.ON_KILL)


@pytest.mark.parametrize(
    ("code", "deadlines", "ending"),
    [
        ("print('up', flush=True); input()", StopDeadlines(eof=30), Ending.ON_EOF),
        (ANSWER, StopDeadlines(eof=0.05, terminate=30), Ending.ON_TERMINATE),
        (STUBBORN + ANSWER, StopDeadlines(eof=0.05, terminate=0.05), Ending.ON_KILL),
    ],
)
async def test_the_ladder_ends_where_the_process_gives_in(
    code: str, deadlines: StopDeadlines, ending: Ending, tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    async with running(code, tmp_path, supervisor) as (process, listener):
        await listener.line()
        assert (await process.stop(deadlines)).ending is ending


async def test_e13_stop_is_shared_and_a_cancelled_caller_stops_nothing(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    async with running(ANSWER, tmp_path, supervisor) as (process, listener):
        callers = [asyncio.ensure_future(process.stop()) for _ in range(5)]
        await asyncio.sleep(0)
        callers[0].cancel()
        exits = await asyncio.gather(*callers, return_exceptions=True)
        assert isinstance(exits[0], asyncio.CancelledError)
        assert exits[1:] == [process.exit] * 4
        assert listener.exits == [process.exit]
        assert await process.stop() == process.exit


async def test_e13_a_stop_that_failed_is_tried_anew(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    async with running(STUBBORN + ANSWER, tmp_path, supervisor) as (process, listener):
        await listener.line()
        with pytest.raises(Survivors):
            await process.stop(EofOnly())
        assert (await process.stop()).signal == signal.SIGKILL


@pytest.mark.parametrize("again", ["stop", "close"])
async def test_e13_an_end_of_the_tree_that_failed_is_tried_anew(
    tmp_path: Path, supervisor: ProcessSupervisor, again: str
) -> None:
    listener = Recorder()
    process = await AgentProcess.start(python(ESCAPES["daemon"], tmp_path), listener, supervisor=supervisor)
    left = identify(int(await listener.line()))
    with pytest.raises(Survivors):
        await process.stop(NoTimeForTheTree(sweep_grace=0, kill=0))
    assert alive(left)
    await (process.stop() if again == "stop" else supervisor.aclose())
    assert not alive(left)
    assert not alive(process.identity)
    assert not supervisor.folder.exists() or list(supervisor.folder.iterdir()) == []


async def test_e13_out_of_descriptors_a_stop_is_carried_out_all_the_same(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    async with running(ECHO, tmp_path, supervisor) as (process, listener):
        process.write(b"hello\n")
        await listener.line()
        with no_descriptors():
            stopping = asyncio.ensure_future(process.stop())
            await eventually(lambda: not process.is_alive)
        assert (await stopping).ending is Ending.ON_EOF
        assert not alive(process.identity)
        assert list(supervisor.folder.iterdir()) == []


async def test_e13_who_cannot_look_for_a_family_tries_again_and_never_takes_it_for_gone(
    supervisor: ProcessSupervisor,
) -> None:
    family = ProcessTree(supervisor.mark(1), (), vouched=True)
    with no_descriptors():
        with pytest.raises(Blind, match="open files"):
            await supervisor.end(family, grace=0, bound=0.1)
        patient = asyncio.ensure_future(supervisor.end(family, grace=0, bound=30))
        with pytest.raises(Blind):
            await supervisor.scan(family)
        assert not patient.done()
    assert await patient == []


async def test_w37d_the_child_has_exactly_its_three_descriptors(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    code = "import os, sys; print(sorted(int(f) for f in os.listdir('/proc/self/fd')), flush=True)"
    async with running(code, tmp_path, supervisor) as (_, listener):
        assert json.loads(await listener.line()) == [0, 1, 2, 3]  # 3 is its own listing of the folder


async def test_the_child_leads_its_own_session_and_is_marked(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), os.environ['OSTLER_SPAWN_ID'], flush=True)"
    async with running(code, tmp_path, supervisor) as (_, listener):
        assert await listener.line() == f"True {supervisor.mark(1)}"


async def test_limits_are_set_from_outside(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    code = "import resource as r; input(); print(*r.getrlimit(r.RLIMIT_NOFILE), flush=True)"
    listener = Recorder()
    command = replace(python(code, tmp_path), rlimits={resource.RLIMIT_NOFILE: (123, 124)})
    process = await AgentProcess.start(command, listener, supervisor=supervisor)
    process.write(b"\n")
    assert await listener.line() == "123 124"
    await process.stop()


async def test_a_refused_limit_is_a_start_error_and_leaves_nothing(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    command = replace(python(ANSWER, tmp_path), rlimits={resource.RLIMIT_NOFILE: (200, 100)})
    with pytest.raises(StartError, match="resource limits"):
        await AgentProcess.start(command, Recorder(), supervisor=supervisor)
    assert marked(supervisor.run.mark) == []


async def test_the_prefix_goes_before_the_command(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    listener = Recorder()
    command = replace(python("import os; print(os.environ['A'], flush=True)", tmp_path), prefix=("env", "A=prefixed"))
    process = await AgentProcess.start(command, listener, supervisor=supervisor)
    assert await listener.line() == "prefixed"
    await process.stop()


@pytest.fixture
def broken(tmp_path: Path) -> dict[type[StartError], Command]:
    text = tmp_path / "text"
    text.write_text("not a program")
    plain = python("pass", tmp_path)
    secret = tmp_path / "unscripted"
    secret.write_text("just text")
    secret.chmod(0o755)
    return {
        MissingProgram: replace(plain, argv=("no-such-agent",)),
        MissingDirectory: replace(plain, cwd=tmp_path / "gone"),
        NotPermitted: replace(plain, argv=(str(text),)),
        NotRunnable: replace(plain, argv=(str(secret),)),
    }


async def test_w33a_failed_starts_are_typed_and_leak_no_descriptor(
    broken: dict[type[StartError], Command], supervisor: ProcessSupervisor
) -> None:
    await asyncio.sleep(0)
    before = open_files()
    for _ in range(50):
        for kind, command in broken.items():
            with pytest.raises(kind) as caught:
                await AgentProcess.start(command, Recorder(), supervisor=supervisor)
            assert caught.value.label == "scripted"
            assert caught.value.program == command.argv[0]
    assert open_files().items() <= before.items(), "what an earlier test left may be gone, and nothing new is there"
    assert list((supervisor.folder).iterdir()) == []


async def test_a_missing_interpreter_is_told_from_a_missing_program(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(MissingProgram, match="interpreter"):
        await AgentProcess.start(
            replace(python("pass", tmp_path), argv=(str(script),)), Recorder(), supervisor=supervisor
        )


class WatchedPath(PosixPath):
    """A directory that notes the threads that look at it."""

    looked: ClassVar[set[int]] = set()

    def __fspath__(self) -> str:
        self.looked.add(threading.get_ident())
        return super().__fspath__()


async def test_n42_a_program_that_is_missing_is_looked_for_beside_the_loop(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    WatchedPath.looked.clear()
    command = replace(python("pass", tmp_path), argv=("no-such-agent",), cwd=WatchedPath(tmp_path))
    with pytest.raises(MissingProgram, match="no such program on PATH"):
        await AgentProcess.start(command, Recorder(), supervisor=supervisor)
    assert WatchedPath.looked
    assert threading.get_ident() not in WatchedPath.looked


async def test_w33b_a_start_cancelled_at_any_step_leaves_nothing(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    async with running(ECHO, tmp_path, supervisor):
        pass
    before = open_files()
    for steps in range(8):
        start = asyncio.ensure_future(AgentProcess.start(python(ANSWER, tmp_path), Recorder(), supervisor=supervisor))
        for _ in range(steps):
            await asyncio.sleep(0)
        if start.cancel():
            with pytest.raises(asyncio.CancelledError):
                await start
        else:
            await (await start).stop()
        assert marked(supervisor.run.mark) == []
        assert list(supervisor.folder.iterdir()) == []
    assert open_files().items() <= before.items(), "what an earlier test left may be gone, and nothing new is there"


async def test_w33a_fifty_lives_leave_the_descriptors_where_they_were(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    cat = replace(python("pass", tmp_path), argv=("cat",))
    await (await AgentProcess.start(cat, Recorder(), supervisor=supervisor)).stop()
    before = open_files()
    for _ in range(50):
        process = await AgentProcess.start(cat, Recorder(), supervisor=supervisor)
        await process.stop()
        assert not alive(process.identity)
    assert open_files().items() <= before.items(), "what an earlier test left may be gone, and nothing new is there"


async def test_w37a_wm6_a_stderr_flood_stops_no_traffic_and_stays_bounded(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    code = """
import sys
for number, line in enumerate(sys.stdin):
    sys.stderr.write(f"noise {number} " + "e" * 1_000_000 + "\\nlast words\\n")
    print(line, end="", flush=True)
"""
    async with running(code, tmp_path, supervisor) as (process, listener):
        for number in range(10):
            process.write(b"%d\n" % number)
            assert await listener.line() == str(number)
        tail = process.stderr_tail(1000)
        assert tail[-1] == "last words"
        assert sum(map(len, tail)) <= 70_000


async def test_w34c_memory_is_that_of_the_whole_tree_and_all_of_it_is_given_back(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    hog = "x = bytearray(30_000_000)\n    print('up', flush=True)"
    code = f"import os, time\nif os.fork() == 0:\n    {hog}\ntime.sleep(600)"
    async with running(code, tmp_path, supervisor) as (process, listener):
        await listener.line()
        tree = [process.identity, *(identify(child.pid) for child in psutil.Process(process.pid).children())]
        memory = await asyncio.to_thread(process.memory)
        assert memory.processes == 2
        assert memory.rss > memory.pss > 30_000_000
    assert len(tree) == 2
    assert not any(map(alive, tree))


async def test_e13_a_closing_keeper_ends_all_takes_no_more_and_closes_twice(tmp_path: Path) -> None:
    first = await ProcessSupervisor.open(tmp_path / "run", "first")
    async with running(ECHO, tmp_path, first):
        pass  # the loop opens a descriptor of its own at the first use of a pipe
    await first.aclose()
    before = open_files()
    supervisor = await ProcessSupervisor.open(tmp_path / "run", "closing")
    listener = Recorder()
    process = await AgentProcess.start(python(STUBBORN + ANSWER, tmp_path), listener, supervisor=supervisor)
    await listener.line()
    closing = asyncio.ensure_future(supervisor.aclose())
    await asyncio.sleep(0)
    with pytest.raises(KeeperClosed):
        await AgentProcess.start(python(ANSWER, tmp_path), Recorder(), supervisor=supervisor)
    await closing
    await supervisor.aclose()
    assert not alive(process.identity)
    assert (await process.stop()).ending is Ending.ON_KILL
    assert list((tmp_path / "run" / "spawns").iterdir()) == []
    assert open_files().items() <= before.items(), "what an earlier test left may be gone, and nothing new is there"


async def test_a_keeper_without_a_reaper_does_not_open(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await ProcessSupervisor.open(tmp_path / "run", "gw", python="/no/such/python")
    assert list((tmp_path / "run" / "spawns").iterdir()) == []


async def test_a_start_that_cannot_be_written_down_is_refused_until_it_can(
    tmp_path: Path, supervisor: ProcessSupervisor
) -> None:
    shutil.rmtree(supervisor.folder)
    supervisor.folder.write_text("in the way")
    with pytest.raises(StartError, match="cannot be written down in the spawn ledger"):
        await AgentProcess.start(python(ECHO, tmp_path), Recorder(), supervisor=supervisor)
    assert marked(supervisor.run.mark) == []
    supervisor.folder.unlink()
    async with running(ECHO, tmp_path, supervisor) as (process, listener):
        process.write(b"hello\n")
        assert await listener.line() == "hello"


async def test_a_process_whose_record_fails_says_so_and_is_ended(tmp_path: Path, supervisor: ProcessSupervisor) -> None:
    starting = asyncio.create_task(AgentProcess.start(python(ECHO, tmp_path), Recorder(), supervisor=supervisor))
    await asyncio.sleep(0)  # announced and spawned in one step
    (announced,) = supervisor.folder.iterdir()
    announced.unlink()
    with pytest.raises(StartError, match=r"who it is could not be written down in the spawn ledger.*No such file"):
        await starting
    assert marked(supervisor.run.mark) == []


async def test_a_full_disk_keeps_no_half_of_an_announcement(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, "1m") as mounted:
        if not mounted:
            pytest.skip("this machine does not let us mount a disk to be filled")
        supervisor = await ProcessSupervisor.open(disk / "run", "full")
        with filled(disk), pytest.raises(ResourcesExhausted, match="No space left"):
            await AgentProcess.start(python(ECHO, tmp_path), Recorder(), supervisor=supervisor)
        async with running(ECHO, tmp_path, supervisor):
            assert len(list(supervisor.folder.iterdir())) == 1
        await supervisor.aclose()
        assert not supervisor.folder.exists()
