"""What it costs to keep every word: appending durably, and finding things again among a million messages.

- "appends" are 64 writers, each waiting for its message to be on the disk before the next. Beside it, in the same
  round, a bare loop of 4 KiB writes with fdatasync: what the disk gives to one who does not group.
- The large file holds 1,000,000 messages in 100,000 sessions, one of them with 2,000 messages. It is built with SQL,
  not through the store: building is not what is measured.
- The time of the processor is given too: on a busy machine it is the figure to compare.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import uvloop

from bench.measure import Report, interleave, ratio
from ostler.gateway.model.records import NewMessage, NewSession, SessionQuery
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.stores.sqlite.connection import connect, make_private
from ostler.gateway.stores.sqlite.connection import run as execute
from ostler.gateway.stores.sqlite.migrations import migrate

WRITERS = 64
TEXT = "What was agreed in the garden about the new roof, and who pays for it? " * 4
MESSAGE = NewMessage("user", [{"type": "input_text", "text": TEXT}], TEXT)
LONG = "sess_long"

SESSIONS = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO sessions (id, platform, owner, title, created_at, last_active_at, message_count, activity)
SELECT printf('sess_%032x', i), CASE i % 1000 WHEN 0 THEN 'telegram' ELSE 'web' END, 'user' || (i % 5000),
    CASE i % 100 WHEN 0 THEN 'Title ' || i END, i, i, 10, i * 10 FROM n
"""
MESSAGES = """
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
INSERT INTO messages (session_id, role, items, text, created_at)
SELECT printf('sess_%032x', i / 10 + 1), CASE i % 2 WHEN 0 THEN 'user' ELSE 'assistant' END,
    printf('[{"type":"input_text","text":"message %d about topic%d and what came of it"}]', i, i % 9973),
    printf('message %d about topic%d and what came of it', i, i % 9973), i FROM n
"""


def run(quick: bool) -> Report:
    report = Report("store: durable appends, and finding things among many")
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as folder:
        appending(report, Path(folder), rounds=3 if quick else 7, each=50 if quick else 150)
        finding(report, Path(folder) / "large" / "ostler.db", sessions=10_000 if quick else 100_000)
    return report


def appending(report: Report, folder: Path, *, rounds: int, each: int) -> None:
    cpu: list[float] = []
    alone: list[float] = []
    syncs: list[float] = []

    def together() -> float:
        return uvloop.run(many(folder, each, cpu))

    def bare() -> float:
        taken = bare_syncs(folder / "bare", 200)
        syncs.append(median(taken) * 1e3)
        return len(taken) / sum(taken)

    def one() -> float:
        taken = uvloop.run(lone(folder, 200))
        alone.append(median(taken) * 1e3)
        return len(taken) / sum(taken)

    rates = interleave({"together": together, "bare": bare, "alone": one}, rounds=rounds)
    found = {f"store, {WRITERS} writers": rates["together"], "bare loop": rates["bare"]}
    report.compare("Durable appends and bare fdatasync", "per s", found, against="bare loop", more=True)
    report.row("appends, 1 writer", "durable/s", rates["alone"])
    report.row("one append, nobody else writing", "ms", alone)
    report.row("one bare fdatasync", "ms", syncs)
    report.row("CPU of an append among 64 writers", "us", cpu)
    report.claim("appends per bare fdatasync", ratio(rates["together"], rates["bare"]), at_least=2)
    report.claim("appends/s, 64 writers", median(rates["together"]), at_least=20_000)
    report.claim("append p50, ms", median(alone), at_most=1.0)


async def many(folder: Path, each: int, cpu: list[float]) -> float:
    """Appends per second of all writers together."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        store = await SqliteStore.open(Path(place) / "ostler.db")
        for n in range(WRITERS):
            await store.create_session(NewSession(f"sess_{n}"))

        async def write(name: str) -> None:
            for _ in range(each):
                await store.append(name, [MESSAGE])

        started, worked = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for n in range(WRITERS):
                group.create_task(write(f"sess_{n}"))
        taken = time.perf_counter() - started
        cpu.append((time.process_time() - worked) / (WRITERS * each) * 1e6)
        await store.aclose()
    return WRITERS * each / taken


async def lone(folder: Path, count: int) -> list[float]:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        store = await SqliteStore.open(Path(place) / "ostler.db")
        await store.create_session(NewSession("sess_p"))
        taken = []
        for _ in range(count):
            started = time.perf_counter()
            await store.append("sess_p", [MESSAGE])
            taken.append(time.perf_counter() - started)
        await store.aclose()
    return taken


def bare_syncs(path: Path, count: int) -> list[float]:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    taken = []
    for n in range(count):
        started = time.perf_counter()
        os.pwrite(file, b"x" * 4096, n * 4096)
        os.fdatasync(file)
        taken.append(time.perf_counter() - started)
    os.close(file)
    return taken


def finding(report: Report, path: Path, *, sessions: int) -> None:
    build(path, sessions)
    report.notes.append(
        f"{sessions * 10 + 2000:,} messages in {sessions + 1:,} sessions: {path.stat().st_size >> 20} MiB"
    )
    uvloop.run(look(report, path))


def build(path: Path, sessions: int) -> None:
    make_private(path)
    db = connect(path, 5)
    migrate(db, path)
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-400000"):
        execute(db, f"PRAGMA {pragma}")
    execute(db, "BEGIN")
    execute(db, SESSIONS, (sessions,))
    execute(db, MESSAGES, (sessions * 10,))
    execute(db, "INSERT INTO sessions (id, created_at, last_active_at) VALUES (?, 0, 0)", (LONG,))
    for n in range(2000):
        values = (LONG, "user", f'[{{"type":"input_text","text":"{TEXT}"}}]', TEXT, n)
        execute(db, "INSERT INTO messages (session_id, role, items, text, created_at) VALUES (?, ?, ?, ?, ?)", values)
    execute(db, "COMMIT")
    execute(db, "PRAGMA journal_mode=WAL")
    db.close()


async def look(report: Report, path: Path) -> None:
    async def reopen() -> None:
        """To the first answer: a file that was opened and cannot be asked yet is not ready."""
        opened = await SqliteStore.open(path)
        await opened.get_session(LONG)
        await opened.aclose()

    store = await SqliteStore.open(path)
    cases: dict[str, tuple[Callable[[], Awaitable[object]], float]] = {
        "open a large file, to the first answer and closed": (reopen, 200),
        "load a history of 2,000 messages": (lambda: store.history(LONG), 15),
        "list the newest 50 sessions": (store.list_sessions, 30),
        "list 50 of a rare platform": (lambda: store.list_sessions(SessionQuery(platform="telegram")), 30),
        "list all of one owner": (lambda: store.list_sessions(SessionQuery(owner="user77")), 30),
        "list 50 titled ones": (lambda: store.list_sessions(SessionQuery(titled=True)), 30),
        "search a rare word": (lambda: store.search("topic4242"), 30),
        "search a word that is in every message": (lambda: store.search("message"), 30),
        "search a beginning": (lambda: store.search("topic424"), 30),
        "search two common words": (lambda: store.search("about came"), 30),
    }
    for name, (act, most) in cases.items():
        wall, cpu = await timed(act)
        report.row(name, "ms", wall)
        report.row("  its CPU", "ms", cpu)
        report.claim(f"{name}, ms", median(wall), at_most=most)
    await store.aclose()


async def timed(act: Callable[[], Awaitable[object]]) -> tuple[list[float], list[float]]:
    wall, cpu = [], []
    for _ in range(11):
        started, worked = time.perf_counter(), time.process_time()
        await act()
        wall.append((time.perf_counter() - started) * 1e3)
        cpu.append((time.process_time() - worked) * 1e3)
    return wall, cpu
