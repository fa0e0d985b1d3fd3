"""The gateway as a process of its own, and what it uses."""

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
LIMITS = {"OSTLER_AUTH__PER_MINUTE": "10000000", "OSTLER_AUTH__CONCURRENCY": "1000"}
# Its tools would give each of 500 sessions a relay process of its own: the agents would be what is measured.
PLAIN = {"OSTLER_MEMORY__ENABLED": "0"}


@dataclass(frozen=True)
class Running:
    """One that answers."""

    port: int
    process: psutil.Process
    ready: float
    """Seconds from its start to a good answer of /readyz."""

    @property
    def cpu(self) -> float:
        """Seconds of processor time so far, of all its threads; to the nanosecond, where `cpu_times` counts ticks."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    @property
    def memory(self) -> float:
        """MB resident."""
        return self.process.memory_info().rss / 2**20


def ready(url: str) -> bool:
    """Whether the gateway says so."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as refused:
        refused.close()
        return False


@contextmanager
def gateway(folder: Path, **environ: str) -> Iterator[Running]:
    """`ostler serve` with a data folder of its own and the demo agent."""
    given = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "OSTLER_LOG__LEVEL": "warning",
        **LIMITS,
        **PLAIN,
        **environ,
    }
    line = [sys.executable, "-m", "ostler.gateway", "serve", "--port", "0", "--data-dir", str(folder / "data")]
    began = time.monotonic()
    with subprocess.Popen(line, cwd=folder, env=given, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = ADDRESS.search(process.stdout.readline())
            assert found is not None
            # The listener is there before the first line is printed: one request that waits is enough, unless there
            # is something to be warmed first.
            while not ready(f"{found[0]}/readyz"):
                time.sleep(0.01)
            yield Running(int(found[1]), psutil.Process(process.pid), time.monotonic() - began)
        finally:
            process.terminate()
