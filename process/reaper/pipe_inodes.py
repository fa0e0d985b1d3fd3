"""The pipes an agent was given, as proof that a process belongs to it. Needs no scan at the right moment.

Rules:
- The inode numbers of the pipes are known before the agent is started. The pipes pass on with stdin, stdout and stderr
  through forks, `setsid` and an emptied environment.
- Only the agent can have passed its ends on: the gateway, and processes that it forked, hold the other ends. While one
  end is held, the kernel gives the number to no other pipe.
- Finding holders means blocking reads for each open file of each process. It is done only for a tree whose gateway has
  died, or whose agent has ended while another process still holds its pipes.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class PipeInodes(NamedTuple):
    """The inode numbers of an agent's three pipes."""

    stdin: int
    stdout: int
    stderr: int

    @classmethod
    def of(cls, descriptors: Iterable[int]) -> "PipeInodes":
        return cls(*(os.fstat(descriptor).st_ino for descriptor in descriptors))


def find_holders(pids: Iterable[int], pipe_inodes: Iterable[PipeInodes]) -> set[int]:
    """The processes that hold an agent's end of one of these pipes: the reading end of a stdin, the writing end of a
    stdout or stderr.
    """
    ends = {f"pipe:[{number}]": access for pipes in pipe_inodes for number, access in zip(pipes, _ACCESS, strict=True)}
    return {pid for pid in pids if _holds(pid, ends)} if ends else set()


_ACCESS = (stat.S_IRUSR, stat.S_IWUSR, stat.S_IWUSR)


def _holds(pid: int, ends: Mapping[str, int]) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        return any(_is_one(f"{folder}/{name}", ends) for name in os.listdir(folder))  # noqa: PTH208 (no pathlib: size)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False  # gone between two reads, or another user's: neither can be an agent of ours


def _is_one(link: str, ends: Mapping[str, int]) -> bool:
    try:
        access = ends.get(os.readlink(link))  # noqa: PTH115 (no pathlib: size)
        return access is not None and bool(os.lstat(link).st_mode & access)
    except FileNotFoundError:
        return False  # closed between two reads
