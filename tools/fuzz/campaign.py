"""One campaign against one target: no crash, no hang, no growth.

Rules:
- A crash names the seed, the number of the frame and the frame; with these it happens again.
- A hang is a batch that takes longer than `PATIENCE`: the process prints where it stands and ends.
- A heavy target is not looked at for growth: what it stores, and what its caches hold, is not the frame's doing.
- Growth is looked for twice: resident memory over the whole walk, and Python's own allocations over a shorter one,
  where a few kilobytes show. The first stretch of each is not counted: caches fill, free lists settle.
"""

import faulthandler
import gc
import time
import tracemalloc
from dataclasses import dataclass
from random import Random

import psutil

from tools.fuzz.mutate import Mutator
from tools.fuzz.target import Subject, Target

BATCH, HEAVY_BATCH = 500, 20
PATIENCE = 60.0
TRACED_SHARE, TRACED_MOST = 20, 12_000
RSS_GROWTH = 24 * 1024 * 1024
TRACED_GROWTH = 64 * 1024


class Finding(AssertionError):
    """Something a frame must not be able to do."""


@dataclass
class Outcome:
    """What a campaign did."""

    target: str
    seed: int
    frames: int
    seconds: float
    slowest: float
    rss_growth: int
    traced_growth: int

    def __str__(self) -> str:
        return (
            f"{self.target:<10} {self.frames:>9,} frames  seed {self.seed}  {self.seconds:6.1f} s  "
            f"slowest frame {self.slowest * 1000:.1f} ms  growth: rss {self.rss_growth / 1024:+,.0f} KiB, "
            f"traced {self.traced_growth / 1024:+,.1f} KiB"
        )


class Campaign:
    """Walks one target."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self._seed = seed
        rng = Random(f"{target.name}:{seed}")
        self._mutator = Mutator(target.seeds(), rng)
        self._subject: Subject = target.begin(rng)
        self._number = 0
        self._slowest = 0.0

    def run(self, *, frames: int, seconds: float | None = None) -> Outcome:
        """Walk `frames` frames, or fewer when `seconds` end first."""
        started = time.monotonic()
        deadline = started + seconds if seconds is not None else None
        traced_growth = rss_growth = 0
        try:
            if self._target.heavy:
                self._walk(frames, deadline)
            else:
                traced = max(BATCH, min(frames // TRACED_SHARE, TRACED_MOST))
                traced_growth = self._traced(traced, deadline)
                rss_growth = self._watched(max(0, frames - traced), deadline)
        finally:
            self._subject.end()
        took = time.monotonic() - started
        return Outcome(self._target.name, self._seed, self._number, took, self._slowest, rss_growth, traced_growth)

    def _traced(self, frames: int, deadline: float | None) -> int:
        tracemalloc.start()
        try:
            self._walk(frames // 2, deadline)
            before = _settled()
            self._walk(frames - frames // 2, deadline)
            growth = _settled() - before
        finally:
            tracemalloc.stop()
        if growth > TRACED_GROWTH:
            raise Finding(f"{self._target.name}: {growth} bytes more are held after {frames // 2} more frames")
        return growth

    def _watched(self, frames: int, deadline: float | None) -> int:
        process = psutil.Process()
        warm = None if deadline is None else time.monotonic() + (deadline - time.monotonic()) / 4
        self._walk(frames // 4, warm)
        before = process.memory_info().rss
        self._walk(frames - frames // 4, deadline)
        growth = process.memory_info().rss - before
        if growth > RSS_GROWTH:
            raise Finding(f"{self._target.name}: resident memory grew by {growth} bytes in {frames} frames")
        return growth

    def _walk(self, frames: int, deadline: float | None) -> None:
        while frames > 0 and (deadline is None or time.monotonic() < deadline):
            batch = min(HEAVY_BATCH if self._target.heavy else BATCH, frames)
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            try:
                for _ in range(batch):
                    self._step()
            finally:
                faulthandler.cancel_dump_traceback_later()
            frames -= batch

    def _step(self) -> None:
        frame = self._mutator.frame()
        self._number += 1
        started = time.thread_time()
        try:
            self._subject.take(frame)
        except Exception as error:
            raise Finding(
                f"{self._target.name}: frame {self._number} of seed {self._seed} raised {error!r}: {frame[:2000]!r}"
            ) from error
        self._slowest = max(self._slowest, time.thread_time() - started)


def _settled() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
