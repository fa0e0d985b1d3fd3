"""The three pipes of an agent, made before its start is announced, so that the announcement can name their inodes.

Rules: `with` closes the agent's ends, which only the start needs, and our ends unless they were taken.
"""

import fcntl
import os
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from ostler.process.command import Command
from ostler.process.reaper.pipe_inodes import PipeInodes
from ostler.process.start_refusals import explain

STDOUT_PIPE = 256 * 1024
"""Bytes that an agent may write before it has to wait for us: four times the default. A line of 20 MiB, with other
sessions' output behind it, then takes a third of the reads, two thirds of the waits for each other and three quarters
of the time. One MiB is no better, and seventy such pipes exceed what the kernel grants a user.
"""


class Stdio:
    """The pipe ends of one start. Raises `StartError` when there are no descriptors left."""

    def __init__(self, command: Command) -> None:
        self._open: list[int] = []
        try:
            self.theirs, self._ours = self._make()
            self.pipe_inodes = PipeInodes.of(self.theirs)
        except OSError as error:
            self._close(self._open)
            raise explain(command, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close(self._open)

    def take(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        """Our ends of stdin, stdout and stderr, unbuffered; from now on the caller closes them."""
        self._open = [end for end in self._open if end not in self._ours]
        stdin, stdout, stderr = self._ours
        return (
            os.fdopen(stdin, "wb", buffering=0),
            os.fdopen(stdout, "rb", buffering=0),
            os.fdopen(stderr, "rb", buffering=0),
        )

    def _make(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        pairs = []
        for _ in range(3):
            pairs.append(os.pipe2(os.O_CLOEXEC))
            self._open += pairs[-1]
        (stdin, feed), (answers, stdout), (complaints, stderr) = pairs
        with suppress(PermissionError):  # refused to users with many pipes (`pipe-user-pages-soft`): keep the default
            fcntl.fcntl(answers, fcntl.F_SETPIPE_SZ, STDOUT_PIPE)
        return (stdin, stdout, stderr), (feed, answers, complaints)

    @staticmethod
    def _close(ends: list[int]) -> None:
        while ends:
            os.close(ends.pop())
