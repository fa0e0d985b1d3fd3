"""The processes that the reaper was told to track. Pure: lines in, tracked processes out.

Rules: `expect N STDIN STDOUT STDERR` (the inodes of its pipes) before a start, `ward N PID START` once it runs, `gone
N` when its process tree is gone. A malformed line is dropped: the marker still finds its process.
"""

from .pipe_inodes import PipeInodes
from .proc import ProcessIdentity


def expect(number: int, pipes: PipeInodes) -> str:
    return f"expect {number} {pipes.stdin} {pipes.stdout} {pipes.stderr}\n"


def track_line(number: int, identity: ProcessIdentity) -> str:
    return f"ward {number} {identity.pid} {identity.start}\n"


def gone(number: int) -> str:
    return f"gone {number}\n"


class TrackedProcesses:
    def __init__(self) -> None:
        self._known: dict[int, ProcessIdentity | None] = {}
        self._pipe_inodes: dict[int, PipeInodes] = {}
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.split())

    @property
    def identities(self) -> list[ProcessIdentity]:
        return [identity for identity in self._known.values() if identity is not None]

    @property
    def pipe_inodes(self) -> list[PipeInodes]:
        return list(self._pipe_inodes.values())

    @property
    def any_pending(self) -> bool:
        """Whether a start was announced whose pid was never told: its marker may appear a moment later."""
        return None in self._known.values()

    def _take(self, words: list[bytes]) -> None:
        match words:
            case [b"expect", number, *pipes] if number.isdigit() and len(pipes) == 3 and all(map(bytes.isdigit, pipes)):
                self._known[int(number)] = None
                self._pipe_inodes[int(number)] = PipeInodes(*map(int, pipes))
            case [b"ward", number, pid, start] if number.isdigit() and pid.isdigit() and start.isdigit():
                self._known[int(number)] = ProcessIdentity(int(pid), int(start))
            case [b"gone", number] if number.isdigit():
                self._known.pop(int(number), None)
                self._pipe_inodes.pop(int(number), None)
            case _:
                return
