"""`python -m tests.soak.crash [--kills N] [--full N] [--stops N] [--seed N]`: the worst that can happen to a gateway.

- kill -9 at a random moment of twenty conversations, now and then in the middle of a SIGSTOP, and the next gateway on
  the same data;
- a full disk (a small one of our own) for a while;
- another program that holds the write lock and is stopped with it, for less and for more than a writer waits.

Afterwards: no acknowledged message is lost, none is there twice, the order is kept, every conversation goes on in its
session with everything that the store has, and after a good end each mirror says what the store says. 0 when all of
that holds.
"""

import argparse
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ostler.gateway.data_folder import DATABASE
from tests.soak.talkers import CONVERSATIONS, PATIENCE, Talker, judge, mirror_differs, stored
from tests.support.serve_command import Command, command

EPOCH = 15
"""Kills after which the conversations begin anew: replaying ever longer ones would be all that we measure."""
SMALL_DISK = "32m"
BALLAST = 64 * 1024


class Crashes:
    """The tally of one run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broken: list[str] = []
        self.counts: Counter[str] = Counter()
        self.talkers: list[Talker] = []

    def begin(self, name: str) -> None:
        """Conversations that nobody knows yet."""
        self.talkers = [Talker(f"{name}-{number}") for number in range(CONVERSATIONS)]

    @contextmanager
    def talking(self, running: Command) -> Iterator[None]:
        """Everybody talks until the block ends."""
        over = threading.Event()
        threads = [threading.Thread(target=talker.talk, args=(running.base, over)) for talker in self.talkers]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(PATIENCE)
            if any(thread.is_alive() for thread in threads):
                self.broken.append("a conversation hangs")

    def judge(self, data: Path) -> None:
        """Nothing lost, nothing doubled, nothing out of order."""
        for talker in self.talkers:
            self.broken += judge(talker, data)

    def end(self, folder: Path) -> None:
        """Every conversation goes on with all that was said in it; then a good end, after which the mirrors agree."""
        data = folder / "data"
        with command(folder) as running:
            for talker in self.talkers:
                _, rows = stored(data, talker.key)
                known = [text.partition("\n")[0] for role, text in rows if role == "user"]
                if talker.recall(running.base) != known:
                    self.broken.append(f"{talker.key}: the agent does not know what the store knows")
                self.counts["messages sent"] += talker.sent
                self.counts["messages acknowledged"] += len(talker.heard)
                self.counts["answers acknowledged"] += len(talker.answered)
                self.counts["messages refused"] += sum(talker.refused.values())
            if running.end() != 0:
                self.broken.append("the gateway did not end well")
        self.broken += [f"{talker.key}: the mirror differs" for talker in self.talkers if mirror_differs(talker, data)]


def kills(crashes: Crashes, many: int) -> None:
    """kill -9, again and again."""
    done = 0
    while done < many:
        with tempfile.TemporaryDirectory(prefix="crash-") as place:
            folder = Path(place)
            crashes.begin(f"kill{done}")
            for _ in range(min(EPOCH, many - done)):
                kill_once(crashes, folder)
                done += 1
            crashes.end(folder)
        print(f"  {done} kills, {len(crashes.broken)} breaks", flush=True)


def kill_once(crashes: Crashes, folder: Path) -> None:
    """One life of a gateway."""
    with command(folder) as running:
        with crashes.talking(running):
            time.sleep(crashes.chance.uniform(0.02, 1.2))
            if crashes.chance.random() < 0.2:
                running.process.send_signal(signal.SIGSTOP)
                time.sleep(crashes.chance.uniform(0.01, 0.1))
                crashes.counts["killed while stopped"] += 1
            running.end(signal.SIGKILL)
        crashes.counts["kills"] += 1
    crashes.judge(folder / "data")


def stops(crashes: Crashes, many: int) -> None:
    """Somebody else holds the lock, and sleeps."""
    if not many:
        return
    with tempfile.TemporaryDirectory(prefix="stop-") as place:
        folder = Path(place)
        crashes.begin("stop")
        with command(folder) as running:
            with crashes.talking(running):
                for number in range(many):
                    time.sleep(0.3)
                    stop_a_writer(folder / "data", 6.5 if number == many - 1 else 1.0)
                    crashes.counts["stopped writers"] += 1
                time.sleep(1.0)
            running.end()
        crashes.judge(folder / "data")
        crashes.end(folder)


def stop_a_writer(data: Path, seconds: float) -> None:
    """A process that has begun a transaction and does not go on."""
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None);"
        "db.execute('begin immediate'); print('mine', flush=True); sys.stdin.read()"
    )
    line = [sys.executable, "-c", code, str(data / DATABASE)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        holder.kill()


def fulls(crashes: Crashes, many: int) -> None:
    """The disk is full for a while, then there is room again."""
    if not many:
        return
    with tempfile.TemporaryDirectory(prefix="full-") as place, small_disk(Path(place)) as folder:
        if folder is None:
            print("  no small disk can be mounted here: left out", flush=True)
            return
        crashes.begin("full")
        with command(folder) as running:
            with crashes.talking(running):
                for _ in range(many):
                    time.sleep(0.5)
                    ballast = fill(folder)
                    time.sleep(1.0)
                    ballast.unlink()
                    crashes.counts["full disks"] += 1
                time.sleep(1.5)
            running.end()
        crashes.judge(folder / "data")
        if not sum(sum(talker.refused.values()) for talker in crashes.talkers):
            crashes.broken.append("the disk was full and nobody was told")
        with closing(sqlite3.connect(folder / "data" / DATABASE)) as db:
            if db.execute("pragma integrity_check").fetchone() != ("ok",):
                crashes.broken.append("the file is damaged")
        crashes.end(folder)


def fill(folder: Path) -> Path:
    """Take all the room there is."""
    ballast = folder / "ballast"
    size = BALLAST
    with ballast.open("wb", buffering=0) as file:
        while size:
            try:
                file.write(b"x" * size)
            except OSError:
                size //= 2
    return ballast


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A disk of some megabytes; None where we may not mount one."""
    mount = shutil.which("mount")
    line = [mount or "mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(folder)]
    if mount is None or subprocess.run(line, check=False, capture_output=True).returncode != 0:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def main() -> int:
    """Run them all."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--full", type=int, default=3)
    parser.add_argument("--stops", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None, help="a random one by default; it is printed")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    print(f"crash: {given.kills} kills, {CONVERSATIONS} conversations, seed {seed}", flush=True)
    crashes = Crashes(seed)
    kills(crashes, given.kills)
    stops(crashes, given.stops)
    fulls(crashes, given.full)
    for name, count in sorted(crashes.counts.items()):
        print(f"  {name:<30} {count:>8}")
    for line in crashes.broken[:100]:
        print(f"BROKEN  {line}")
    print(f"{len(crashes.broken)} breaks")
    return 1 if crashes.broken else 0


if __name__ == "__main__":
    sys.exit(main())
