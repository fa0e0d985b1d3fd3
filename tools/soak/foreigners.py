"""Other programs at the database of a running gateway: backups, vacuums, a reader that stays, a writer of its own.

Rules:
- Each is a process of its own: the `sqlite3` command where the machine has one, else Python's `sqlite3`. They begin and
  end while the gateway works, for it is at its end that a program deletes the log that it takes for its own.
- Beside most gateways there is one kind of them only: another one's locks would protect the log as well as ours.
- A backup must be sound, and hold every message that was acknowledged before it began.
- What the writer was told is stored is counted like what a conversation was told.
- A program may be refused because the database is busy: that is an answer, and counted.
"""

import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from ostler.gateway.config.data_folder import DATABASE
from tests.support.tally import Tally
from tools.soak.talkers import Talker, said_in

PATIENCE = 60.0
PYTHON = {
    "backup": "live, copy = sqlite3.connect(sys.argv[1], timeout=10), sqlite3.connect(sys.argv[2]); live.backup(copy);"
    "copy.close(); live.close()",
    "vacuum": "live = sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None); live.execute('vacuum');"
    "live.close()",
}
READ = """
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, timeout=10, isolation_level=None)
db.execute("begin")
print(*db.execute("select count(*) from messages").fetchone(), flush=True)
sys.stdin.read()
print(*db.execute("select count(*) from messages").fetchone(), flush=True)
db.close()
"""
WRITE = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None)
db.execute("create table if not exists foreign_notes (number integer primary key)")
while True:
    print(*db.execute("insert into foreign_notes default values returning number").fetchone(), flush=True)
    time.sleep(0.02)
"""
KINDS = ("backups by others", "vacuums by others", "long readers", "rows of a foreign writer")


class Foreigners:
    """All of them, for as long as one gateway lives."""

    def __init__(self, data: Path, talkers: Sequence[Talker], tally: Tally, kinds: Sequence[str]) -> None:
        self._database = data / DATABASE
        self._copies = data.parent / "copies"
        self._talkers = talkers
        self._tally = tally
        self._kinds = kinds
        self._over = threading.Event()
        works = dict(zip(KINDS, (self._back_up, self._vacuum, self._read, self._write), strict=True))
        self._threads = [threading.Thread(target=self._try, args=(works[kind],)) for kind in kinds]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """From here to the end of the block, which is after the end of the gateway."""
        self._copies.mkdir(exist_ok=True)
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join(PATIENCE)
            self._tally.expect(not any(thread.is_alive() for thread in self._threads), "another program hangs")

    def wait_for_each(self) -> None:
        """Until each of them has done something here, beside the living gateway."""
        limit = time.monotonic() + PATIENCE
        before = {kind: self._tally.counts[kind] for kind in self._kinds}
        while any(self._tally.counts[kind] == many for kind, many in before.items()) and time.monotonic() < limit:
            time.sleep(0.01)

    def judge(self) -> None:
        """The database is sound, and has every row of the foreign writer."""
        with closing(sqlite3.connect(self._database, timeout=30)) as db:
            self._tally.expect(is_sound(db), "the database is damaged")

    def _try(self, work: Callable[[], None]) -> None:
        """What a program meets that it should not meet is a break, and no end of a thread that nobody sees."""
        try:
            work()
        except (OSError, ValueError, sqlite3.Error, subprocess.SubprocessError) as error:
            self._tally.expect(False, f"another program failed: {type(error).__name__}: {error}")

    def _back_up(self) -> None:
        copy = self._copies / DATABASE
        while not self._over.wait(0.01):
            known = [(talker, set(talker.heard)) for talker in self._talkers]
            copy.unlink(missing_ok=True)
            if not self._run("backup", f".backup '{copy}'", str(copy)):
                continue
            with closing(sqlite3.connect(copy)) as db:
                self._tally.expect(is_sound(db), "a backup is damaged")
            for talker, heard in known:
                lost = heard - {each.number for each in said_in(talker, self._copies)}
                self._tally.expect(not lost, f"{talker.key}: a backup lost the acknowledged {sorted(lost)}")
            self._tally.counts[KINDS[0]] += 1

    def _vacuum(self) -> None:
        while True:
            self._tally.counts[KINDS[1]] += self._run("vacuum", ".timeout 10000", "vacuum")
            if self._over.wait(0.2):
                return

    def _read(self) -> None:
        while not self._over.is_set():
            with self._python(READ) as reader:
                assert reader.stdout is not None
                first = reader.stdout.readline()
                self._tally.counts[KINDS[2]] += bool(first)
                self._over.wait(0.3)
                last, _ = reader.communicate(timeout=PATIENCE)
                self._tally.expect(first == last, f"a long reader saw {first.strip()} and {last.strip()} messages")

    def _write(self) -> None:
        told: list[int] = []
        with self._python(WRITE) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                told.append(int(line))
                self._tally.counts[KINDS[3]] += 1
                if self._over.is_set():
                    break
            writer.kill()
        with closing(sqlite3.connect(self._database, timeout=30)) as db:
            there = {row[0] for row in db.execute("select number from foreign_notes")} if told else set()
        self._tally.expect(there.issuperset(told), f"a foreign writer lost {sorted(set(told) - there)}")

    def _run(self, name: str, *words: str) -> bool:
        """Whether it did what it came for, and was not sent away."""
        command = shutil.which("sqlite3")
        if command is not None and name == "backup":
            line = [command, "-cmd", ".timeout 10000", str(self._database), words[0]]
        elif command is not None:
            line = [command, "-cmd", words[0], str(self._database), words[1]]
        else:
            line = [sys.executable, "-c", f"import sqlite3, sys; {PYTHON[name]}", str(self._database), *words[1:]]
        done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=PATIENCE)
        refused = done.returncode != 0 or "rror" in done.stderr
        self._tally.counts[f"refused: {name}"] += refused
        busy = any(word in done.stderr for word in ("locked", "busy"))
        self._tally.expect(not refused or busy, f"{name}: {done.stderr.strip()}")
        return not refused

    def _python(self, code: str) -> "subprocess.Popen[str]":
        line = [sys.executable, "-c", code, str(self._database)]
        return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def is_sound(db: sqlite3.Connection) -> bool:
    """Whether SQLite finds nothing wrong with the file."""
    return bool(db.execute("pragma integrity_check").fetchone() == ("ok",))
