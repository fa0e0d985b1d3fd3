"""Bytes in and out of a process that speaks one JSON document per line.

Rules of this file: a frame is written whole, under one lock, so the frames of two turns never mix. A line longer than
the limit is skipped up to its newline, so one bad sender costs one message. Writing fails once the reader is gone.
"""

from __future__ import annotations

import os
import threading

from ostler.demo.frames import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from ostler.demo.record import Recorder

MAX_LINE = 256 << 20


class StdoutWriter:
    """The writing end of stdout. Any thread may send."""

    def __init__(self, fd: int, recorder: Recorder | None = None) -> None:
        self.frozen = False
        self._lock = threading.Lock()
        self._fd = fd
        self._recorder = recorder
        self._requests = 0

    def send(self, frame: dict[str, object]) -> None:
        self.write(encode(frame))

    def write(self, data: bytes) -> None:
        """Write whole lines. Raises BrokenPipeError when the reader is gone."""
        with self._lock:
            if self._recorder is not None:
                self._recorder.outgoing(data)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def freeze(self) -> None:
        """Block all output permanently: the fault of an agent whose only thread is stuck."""
        self._lock.acquire()
        self.frozen = True

    def next_id(self) -> int:
        """Return a new id for a request of the agent."""
        with self._lock:
            self._requests += 1
            return self._requests


def read_lines(source: BinaryIO) -> Iterator[bytes]:
    """Yield every line of `source` that has at most MAX_LINE bytes, until it ends."""
    while line := source.readline(MAX_LINE):
        if line.endswith(b"\n") or len(line) < MAX_LINE:
            yield line
        else:
            _skip_line(source)


def _skip_line(source: BinaryIO) -> None:
    while (piece := source.readline(1 << 20)) and not piece.endswith(b"\n"):
        pass
