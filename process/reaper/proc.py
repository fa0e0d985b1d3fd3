"""Which processes belong to an agent, read from `/proc`. Blocking reads: never call these on an event loop.

Rules:
- Four bonds, because real agents break three of them: a marker in the environment (codex strips it from its tool
  servers), the session opened at spawn (`setsid` leaves it), descent (a double fork cuts it), and membership seen in an
  earlier scan. The fifth, the pipes it was given, is in `pipe_inodes`.
- A bare pid is never a bond: the kernel reuses pids, so a pid counts only together with its start time.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

MARKER = "OSTLER_SPAWN_ID"
_NEEDLE = f"\0{MARKER}=".encode()
_PIECE = 65_536
"""Bytes, more than nearly every environment has. A file in `/proc` returns a short read only at its end."""


class ProcessIdentity(NamedTuple):
    """The identity of one process: a reused pid has another start time (clock ticks since boot)."""

    pid: int
    start: int


class Stat(NamedTuple):
    pid: int
    ppid: int
    sid: int
    start: int
    dead: bool

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.start)


Table = Mapping[int, Stat]


def parse_stat(pid: int, line: bytes) -> Stat:
    # The name in parentheses may itself contain spaces and parentheses: split after the last one.
    fields = line[line.rindex(b")") + 2 :].split(maxsplit=20)
    # A zombie main thread whose other threads still run is a live process.
    dead = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return Stat(pid, ppid=int(fields[1]), sid=int(fields[3]), start=int(fields[19]), dead=dead)


def read_stat(pid: int) -> Stat | None:
    """The stat of a process; None when it does not exist, or no longer."""
    content = _read(pid, "stat")
    return parse_stat(pid, content) if content else None


def read_table() -> dict[int, Stat]:
    found = (read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 (no pathlib: size)
    return {stat.pid: stat for stat in found if stat is not None}


def is_alive(identity: ProcessIdentity) -> bool:
    stat = read_stat(identity.pid)
    return stat is not None and stat.identity == identity and not stat.dead


class MarkedProcesses(NamedTuple):
    """One scan of all processes: the table, and the markers that their environments contained at exec."""

    table: Table
    marks: Mapping[int, str]

    def marked(self, mark: str) -> set[int]:
        """The pids with exactly this marker; a marker that ends in `.` stands for all spawns of its gateway run."""
        every = mark.endswith(".")
        return {pid for pid, found in self.marks.items() if found == mark or (every and found.startswith(mark))}


def take_census(since: int) -> MarkedProcesses:
    """Scan all processes. Markers are read only of processes that began at `since` or later: no marker is older than
    the gateway that made it, and most processes on a machine are.
    """
    table = read_table()
    found = ((stat.pid, read_mark(stat.pid)) for stat in table.values() if stat.start >= since)
    return MarkedProcesses(table, {pid: mark for pid, mark in found if mark is not None})


def read_mark(pid: int) -> str | None:
    _, found, rest = (b"\0" + _read(pid, "environ")).partition(_NEEDLE)
    return rest.partition(b"\0")[0].decode(errors="replace") if found else None


def find_members(
    table: Table, marked: Iterable[int], tracked: Collection[ProcessIdentity], *, vouched: bool
) -> set[int]:
    """The pids of the process tree: all that are marked or bound to `tracked` (agents and members seen before), with
    all descendants.

    `vouched` says that each tracked process was known to be ours a moment ago, so its session number cannot have been
    reused yet even if its leader is gone. A ledger read after a restart cannot vouch. A start time of 0 stands for a
    process whose gateway died before it could read it: that process leads its own session.
    """
    members = set(marked)
    members.update(
        member.pid
        for member in tracked
        if member.pid in table and _is_member(table[member.pid], member, vouched=vouched)
    )
    trusted = {table[pid].sid for pid in members}
    for member in tracked:
        if member.pid in members or member.pid in trusted or (vouched and member.pid not in table):
            members.update(s.pid for s in table.values() if s.sid == member.pid and s.start >= member.start)
    return _with_descendants(table, members)


def _is_member(stat: Stat, member: ProcessIdentity, *, vouched: bool) -> bool:
    return stat.identity == member or (vouched and not member.start and stat.sid == member.pid)


def _with_descendants(table: Table, roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for stat in table.values():
        children.setdefault(stat.ppid, []).append(stat.pid)
    tree, queue = set(roots), list(roots)
    while queue:
        fresh = [pid for pid in children.get(queue.pop(), ()) if pid not in tree]
        tree.update(fresh)
        queue.extend(fresh)
    return tree


def _read(pid: int, name: str) -> bytes:
    """Read with as few system calls as possible: a file object makes twice as many, for each process of a scan."""
    try:
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
        try:
            content = piece = os.read(file, _PIECE)
            while len(piece) == _PIECE:
                piece = os.read(file, _PIECE)
                content += piece
            return content
        finally:
            os.close(file)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""  # gone between two reads, or another user's: neither can be an agent of ours
