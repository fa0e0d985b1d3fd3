"""The spawn ledger: every process is recorded on disk before it is started, so that the next gateway can end it.

Rules:
- One directory per gateway run: `spawns/<instance>.<pid>.<start>.<boot>.<pid namespace>/<n>`. All that identifies the
  run is in its name, so there is no half-written owner.
- One file per spawn: a line with label and pipe inodes before the start, a line with pid and start time after it. A
  torn or empty file still carries the facts that are in its name.
- No fsync: the ledger must survive the gateway's death, not the machine's, and a machine that goes down takes the
  agents with it.
- A start waits for its announcement on the loop, and creating a file is the slowest part of it: a third of a
  millisecond on a busy ext4, ten times as long as renaming an existing file. So one spare file is kept beside the
  spawns directory, where it is never taken for a spawn; `make_spare` is for a thread.
- Recorded pipe inodes are trusted for an hour. Once no process holds a pipe, its number may belong to another pipe one
  day: the kernel numbers pipes and sockets with 32 bits, one after the other, and no machine makes four thousand
  million of them in an hour. The reaper needs no such rule: it acts within seconds.
"""

import errno
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ostler.process.errors import RuntimeDirError
from ostler.process.reaper.pipe_inodes import PipeInodes
from ostler.process.reaper.proc import ProcessIdentity, is_alive, read_stat

INSTANCE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RUN = re.compile(r"([A-Za-z0-9_-]{1,64})\.(\d+)\.(\d+)\.([0-9a-f]+)\.(\d+)")
_MAX_FILE = 65_536
_LEASH_HOLDS = 3600.0


@dataclass(frozen=True, slots=True)
class Run:
    """One life of a gateway: its process, boot and pid namespace."""

    instance: str
    owner: ProcessIdentity
    boot: str
    namespace: int

    @classmethod
    def of_this_process(cls, instance: str) -> "Run":
        if not INSTANCE.fullmatch(instance):
            raise ValueError(f"instance id {instance!r}: 1 to 64 letters, digits, '-' or '_'")
        stat = read_stat(os.getpid())
        if stat is None:
            raise RuntimeDirError(Path("/proc"), "it does not show our own process")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")
        return cls(instance, stat.identity, boot, Path("/proc/self/ns/pid").stat().st_ino)

    @classmethod
    def parse(cls, name: str) -> "Run | None":
        found = _RUN.fullmatch(name)
        if not found:
            return None
        instance, pid, start, boot, namespace = found.groups()
        return cls(instance, ProcessIdentity(int(pid), int(start)), boot, int(namespace))

    @property
    def name(self) -> str:
        return f"{self.instance}.{self.owner.pid}.{self.owner.start}.{self.boot}.{self.namespace}"

    @property
    def mark(self) -> str:
        """The common start of the markers of all its spawns. Unique per run even if the instance id is not."""
        return f"{self.instance}-{self.owner.pid}-{self.owner.start}."

    @property
    def reaper_arguments(self) -> tuple[str, str, str]:
        """The arguments of its reaper's command line."""
        return self.mark, str(self.owner.pid), str(self.owner.start)

    def judged_by(self, here: "Run") -> bool:
        """Whether pids mean the same in both runs: same boot, same pid namespace."""
        return self.boot == here.boot and self.namespace == here.namespace


class SpawnLedger:
    """The record of the spawns of this run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._spare = spare_of(folder)

    @classmethod
    def open(cls, runtime_dir: Path, run: Run) -> "SpawnLedger":
        folder = spawns_folder(runtime_dir) / run.name
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError as error:
            raise RuntimeDirError(folder, "this process already keeps a ledger under that instance id") from error
        return cls(folder)

    def announce(self, number: int, label: str, pipes: PipeInodes) -> None:
        entry: dict[str, str | PipeInodes] = {"label": label, "leash": pipes}
        try:
            self._spare.rename(self.folder / str(number))
        except FileNotFoundError:
            self._create(number, entry)
        else:
            self._write_down(number, entry, 0)

    def make_spare(self) -> None:
        """Make a file ahead of the next announcement."""
        # If this fails, the next announcement creates its own file and raises the reason.
        with suppress(OSError):
            os.close(os.open(self._spare, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def _create(self, number: int, entry: Mapping[str, str | PipeInodes]) -> None:
        try:
            self._write_down(number, entry, os.O_CREAT | os.O_EXCL)
        except FileNotFoundError:
            # The directory was removed: cleaners of temporary directories delete what was not touched for some days.
            prepare(self.folder.parent.parent)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._write_down(number, entry, os.O_CREAT | os.O_EXCL)

    def _write_down(self, number: int, entry: Mapping[str, str | PipeInodes], flags: int) -> None:
        """Write an announcement completely or raise: a process that is not announced is not started, and half an
        announcement would keep the ledger without a process.
        """
        try:
            self._append(number, entry, flags)
        except OSError:
            with suppress(OSError):
                self.forget(number)
            raise

    def complete(self, number: int, identity: ProcessIdentity) -> None:
        self._append(number, {"pid": identity.pid, "start": identity.start}, 0)

    def forget(self, number: int) -> None:
        (self.folder / str(number)).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the run's directory if no spawn is left in it; otherwise the next gateway start reads it."""
        self._spare.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _append(self, number: int, entry: Mapping[str, str | PipeInodes] | Mapping[str, int], flags: int) -> None:
        path = self.folder / str(number)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
        try:
            line = json.dumps(entry).encode() + b"\n"
            if os.write(handle, line) < len(line):  # the disk had room for a part of the line only
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class StaleRun:
    """What a dead gateway left: its marker, what was recorded of its agents, and whether a start is incomplete."""

    run: Run
    folder: Path
    tracked: tuple[ProcessIdentity, ...]
    pipe_inodes: tuple[PipeInodes, ...]
    pending: bool

    def clear(self) -> None:
        # Two gateways may recover the same run at once; the second finds nothing, which is the result it wants.
        shutil.rmtree(self.folder, ignore_errors=True)
        spare_of(self.folder).unlink(missing_ok=True)


def prepare(runtime_dir: Path) -> None:
    """Make the runtime directory, or check that only this user can read it. Raises `RuntimeDirError`; never repairs an
    existing one.
    """
    runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = runtime_dir.lstat()
    if not runtime_dir.is_dir() or runtime_dir.is_symlink():
        raise RuntimeDirError(runtime_dir, "not a directory")
    if status.st_uid != os.geteuid():
        raise RuntimeDirError(runtime_dir, f"it belongs to uid {status.st_uid}")
    if status.st_mode & 0o077:
        raise RuntimeDirError(runtime_dir, f"mode {status.st_mode & 0o777:04o} lets others in")
    spawns_folder(runtime_dir).mkdir(mode=0o700, exist_ok=True)


def spawns_folder(runtime_dir: Path) -> Path:
    return runtime_dir / "spawns"


def spare_of(folder: Path) -> Path:
    """The spare file of a run, given the directory of its spawns."""
    return folder.parent.parent / f"spare.{folder.name}"


def find_stale_runs(runtime_dir: Path, here: Run, now: float) -> list[StaleRun]:
    """The runs whose gateway is dead. Runs with a live gateway, or in another pid namespace, are left alone. `now` is
    the wall-clock time.
    """
    stale_runs = []
    for folder in sorted(spawns_folder(runtime_dir).iterdir()):
        run = Run.parse(folder.name)
        if run is None or run == here:
            continue
        if run.boot != here.boot:
            stale_runs.append(StaleRun(run, folder, (), (), pending=False))  # that boot's processes are gone with it
        elif run.judged_by(here) and not is_alive(run.owner):
            stale_runs.append(_read_stale_run(run, folder, now))
    return stale_runs


class _Record(NamedTuple):
    identity: ProcessIdentity | None = None
    pipes: PipeInodes | None = None


def _read_stale_run(run: Run, folder: Path, now: float) -> StaleRun:
    records = [_read_spawn(file, now) for file in folder.iterdir()]
    tracked = tuple(record.identity for record in records if record.identity is not None)
    pipe_inodes = tuple(record.pipes for record in records if record.pipes is not None)
    return StaleRun(run, folder, tracked, pipe_inodes, pending=any(record.identity is None for record in records))


def _read_spawn(file: Path, now: float) -> _Record:
    """Read the record of one spawn. A start that was announced and not completed has no identity: its marker and pipes
    must find it.
    """
    try:
        with file.open("rb") as stream:
            fresh = now - os.fstat(stream.fileno()).st_mtime < _LEASH_HOLDS
            lines = stream.read(_MAX_FILE).splitlines()
    except OSError:
        return _Record()
    return _Record(_read_identity(lines[1:]), _read_pipes(lines) if fresh else None)


def _read_pipes(lines: list[bytes]) -> PipeInodes | None:
    try:
        return PipeInodes(*map(int, json.loads(lines[0])["leash"]))
    except (ValueError, LookupError, TypeError):
        return None


def _read_identity(lines: list[bytes]) -> ProcessIdentity | None:
    try:
        entry = json.loads(lines[0])
        return ProcessIdentity(int(entry["pid"]), int(entry["start"]))
    except (ValueError, LookupError, TypeError):
        return None
