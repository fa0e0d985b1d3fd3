"""`python -m tools.soak.crash [--kills N] [--full N] [--stops N] [--seed N]`: the worst that can happen to a gateway.

- kill -9 at a random moment of twenty conversations, now and then in the middle of a SIGSTOP, and the next gateway on
  the same data; beside each, other programs make backups, vacuum, read and write the same database;
- a full disk (a small one of our own) for a while;
- another program that holds the write lock and is stopped with it, for less and for more than a writer waits.

Afterwards: no acknowledged message is lost, none is there twice, the order is kept, every conversation goes on in its
session with everything that the store has, every backup is sound and has what was acknowledged before it began, and
after a good end each mirror says what the store says. 0 when all of that holds.
"""

import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from ostler.gateway.config.data_folder import DATABASE
from tests.support.serve_command import Command, command
from tests.support.small_disk import Ballast, filled, small_disk
from tests.support.tally import Tally, begin, words
from tools.soak.foreigners import KINDS, Foreigners
from tools.soak.talkers import CONVERSATIONS, PATIENCE, Talker, judge, mirror_differs, stored

EPOCH = 15
"""Kills after which the conversations begin anew: replaying ever longer ones would be all that we measure."""
MESSAGES = ("messages sent", "messages acknowledged", "answers acknowledged", "messages refused")
SMALL_DISK = "32m"
SHORT, LONG = 1.0, 60.0
"""Seconds for which the last of the stopped writers holds the lock: more than a writer of the gateway waits."""


class Crashes:
    """One run."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.chance = random.Random(tally.seed)
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
            self.tally.expect(not any(thread.is_alive() for thread in threads), "a conversation hangs")

    def neighbours(self) -> Sequence[str]:
        """The other programs beside the next gateway: each kind by itself in turn, and now and then all of them."""
        turn = self.tally.counts["kills"] % (len(KINDS) + 1)
        return KINDS if turn == len(KINDS) else KINDS[turn : turn + 1]

    def refusals(self) -> int:
        """Messages that were not taken, so far."""
        return sum(talker.refused.total() for talker in self.talkers)

    def judge(self, data: Path) -> None:
        """Nothing lost, nothing doubled, nothing out of order."""
        for talker in self.talkers:
            self.tally.broken += judge(talker, data)

    def end(self, folder: Path) -> None:
        """Every conversation goes on with all that was said in it; then a good end, after which the mirrors agree."""
        data = folder / "data"
        with command(folder) as running:
            for talker in self.talkers:
                _, rows = stored(data, talker.key)
                known = [text.partition("\n")[0] for role, text in rows if role == "user"]
                told = talker.recall(running.base)
                self.tally.expect(told == known, f"{talker.key}: the agent does not know what the store knows")
                said = (talker.sent, len(talker.heard), len(talker.answered), talker.refused.total())
                self.tally.counts.update(dict(zip(MESSAGES, said, strict=True)))
            self.tally.expect(running.end() == 0, "the gateway did not end well")
        for talker in self.talkers:
            self.tally.expect(not mirror_differs(talker, data), f"{talker.key}: the mirror differs")


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
        print(f"  {done} kills, {len(crashes.tally.broken)} breaks", flush=True)


def kill_once(crashes: Crashes, folder: Path) -> None:
    """One life of a gateway."""
    foreigners = Foreigners(folder / "data", crashes.talkers, crashes.tally, crashes.neighbours())
    with command(folder) as running:
        with foreigners.at_work(), crashes.talking(running):
            if crashes.tally.counts["kills"] <= len(KINDS):
                foreigners.wait_for_each()
            time.sleep(crashes.chance.uniform(0.02, 1.2))
            if crashes.chance.random() < 0.2:
                running.process.send_signal(signal.SIGSTOP)
                time.sleep(crashes.chance.uniform(0.01, 0.1))
                crashes.tally.counts["killed while stopped"] += 1
            crashes.tally.expect(running.end(signal.SIGKILL) == -signal.SIGKILL, "a gateway was gone before its kill")
        crashes.tally.counts["kills"] += 1
    foreigners.judge()
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
                    # The last one is held for as long as it takes until somebody hears of it.
                    enough = (lambda: crashes.refusals() > 0) if number == many - 1 else None
                    held = stop_a_writer(folder / "data", enough)
                    crashes.tally.counts["stopped writers"] += held
                    crashes.tally.expect(held, "the writer that was to be stopped did not hold the lock")
                time.sleep(1.0)
            running.end()
        crashes.tally.expect(crashes.refusals() > 0, f"the lock was held for {LONG:g} s and nobody was told")
        crashes.judge(folder / "data")
        crashes.end(folder)


def stop_a_writer(data: Path, enough: Callable[[], bool] | None) -> bool:
    """A process that has begun a transaction and does not go on, for a second or until it is enough. Whether it had."""
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None);"
        "db.execute('begin immediate'); print('mine', flush=True); sys.stdin.read()"
    )
    line = [sys.executable, "-c", code, str(data / DATABASE)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        held = holder.stdout.readline() == b"mine\n"
        holder.send_signal(signal.SIGSTOP)
        if enough is None:
            time.sleep(SHORT)
        else:
            over = time.monotonic() + LONG
            while not enough() and time.monotonic() < over:
                time.sleep(0.05)
        holder.kill()
    return held


def fulls(crashes: Crashes, many: int) -> None:
    """The disk is full for a while, then there is room again."""
    if not many:
        return
    with tempfile.TemporaryDirectory(prefix="full-") as place, small_disk(Path(place), SMALL_DISK) as mounted:
        folder = Path(place)
        if not mounted:
            crashes.tally.left_out["full disks"] = "no small disk can be mounted here"
            return
        crashes.begin("full")
        with command(folder) as running:
            with crashes.talking(running):
                for _ in range(many):
                    time.sleep(0.5)
                    with filled(folder) as ballast:
                        told = wait_for_refusal(crashes, ballast)
                    crashes.tally.expect(told, f"the disk was full for {LONG:g} s and nobody was told")
                    crashes.tally.counts["full disks"] += 1
                time.sleep(1.5)
            running.end()
        crashes.judge(folder / "data")
        with closing(sqlite3.connect(folder / "data" / DATABASE)) as db:
            crashes.tally.expect(db.execute("pragma integrity_check").fetchone() == ("ok",), "the file is damaged")
        crashes.end(folder)


def wait_for_refusal(crashes: Crashes, ballast: Ballast) -> bool:
    """Until somebody is told that the disk is full. The log of the database is written over from its beginning once it
    is folded: 460 messages were stored, for good, on a disk without any room."""
    before, over = crashes.refusals(), time.monotonic() + LONG
    while crashes.refusals() == before and time.monotonic() < over:
        time.sleep(0.05)
        ballast.fill()
    return crashes.refusals() > before


def main() -> int:
    """Run them all."""
    parser = words("tools.soak.crash", __doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--full", type=int, default=3)
    parser.add_argument("--stops", type=int, default=3)
    given = parser.parse_args()
    tally = begin("crash", given.seed, f"{given.kills} kills, {CONVERSATIONS} conversations")
    crashes = Crashes(tally)
    kills(crashes, given.kills)
    stops(crashes, given.stops)
    fulls(crashes, given.full)
    if given.kills > len(KINDS):
        tally.expect_some(KINDS)
    return tally.close("kills", "full disks", "stopped writers", *KINDS, *MESSAGES)


if __name__ == "__main__":
    sys.exit(main())
