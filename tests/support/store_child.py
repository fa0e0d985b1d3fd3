"""A process that writes into a store and says what was acknowledged: `python -m tests.support.store_child VERB ...`.

`write FOLDER SESSIONS` appends until it is killed: a line `session number` on stdout for every acknowledged message,
and `turn session number` for every acknowledged turn with response and slug. `open FOLDER` opens, prints and ends.
`full FOLDER` fills a disk and goes on when there is room; `read-only FOLDER` may not write for a while.
"""

import asyncio
import os
import sys
from pathlib import Path

from ostler.gateway.errors import StoreFull, StoreReadOnly
from ostler.gateway.records import NewSession, TurnCommit
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.stores.sqlite.connection import connect_reader, value
from tests.support.stores import response, said, texts


def tell(line: str) -> None:
    """One write: a line is told whole or, when we are killed, not at all."""
    os.write(1, f"{line}\n".encode())


async def write(folder: Path, sessions: int) -> None:
    store = await SqliteStore.open(folder / "ostler.db")

    async def one(name: str) -> None:
        await store.create_session(NewSession(name))
        number = len(await store.history(name))
        while True:
            if number % 5:
                await store.append(name, [said(f"{number}")])
                tell(f"{name} {number}")
            else:
                made = response(f"resp_{name}_{number}", name)
                await store.claim_conversation(f"slug_{name}", NewSession(name))
                await store.commit_turn(TurnCommit(name, [said(f"{number}")], made, f"slug_{name}"))
                tell(f"turn {name} {number}")
            number += 1

    async with asyncio.TaskGroup() as group:
        for n in range(sessions):
            group.create_task(one(f"sess_{n}"))


async def open_only(folder: Path) -> None:
    store = await SqliteStore.open(folder / "ostler.db")
    found = await store.list_conversations()
    await store.aclose()
    tell(f"opened {len(found)}")


async def full(folder: Path) -> None:
    """Write until the disk is full, see that nothing else breaks, make room, write again."""
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    store = await SqliteStore.open(folder / "ostler.db")
    await store.create_session(NewSession("sess_p"))
    written = 0
    try:
        while True:
            await store.append("sess_p", [said(f"{written} " + "x" * 20_000)])
            written += 1
    except StoreFull as fault:
        tell(f"full {written} {fault}")
    assert [text.partition(" ")[0] for text in texts(await store.history("sess_p"))] == [*map(str, range(written))]
    assert await store.search("x" * 20) is not None
    ballast.unlink()
    await store.append("sess_p", [said("room again")])
    assert texts(await store.history("sess_p"))[-1] == "room again"
    await store.aclose()
    db = connect_reader(folder / "ostler.db", 1)
    tell(f"{value(db, 'PRAGMA integrity_check')} {value(db, 'SELECT count(*) FROM messages') - written}")
    db.close()


async def read_only(folder: Path) -> None:
    """Lose the right to write, by the way of an operator: reads go on, also after a restart; then it comes back."""
    store = await SqliteStore.open(folder / "ostler.db")
    await store.create_session(NewSession("sess_p"))
    await store.append("sess_p", [said("before")])
    allow(folder, 0o500, 0o400)
    await refused(store)
    await reads(store)
    await store.aclose()
    store = await SqliteStore.open(folder / "ostler.db")
    await refused(store)
    await reads(store)
    allow(folder, 0o700, 0o600)
    await store.append("sess_p", [said("after")])
    tell(" ".join(texts(await store.history("sess_p"))))
    await store.aclose()


def allow(folder: Path, folder_mode: int, mode: int) -> None:
    folder.chmod(0o700)
    for file in folder.iterdir():
        file.chmod(mode)
    folder.chmod(folder_mode)


async def refused(store: SqliteStore) -> None:
    try:
        await store.append("sess_p", [said("never")])
    except StoreReadOnly:
        tell("refused")


async def reads(store: SqliteStore) -> None:
    assert texts(await store.history("sess_p")) == ["before"]
    assert len(await store.list_sessions()) == 1
    assert len(await store.search("before")) == 1


def be_nobody(folder: Path) -> None:
    """Root may write whatever the mode says."""
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def main(verb: str, folder: Path, *rest: str) -> None:
    if verb == "write":
        asyncio.run(write(folder, int(rest[0])))
    if verb == "read-only":
        be_nobody(folder)
    asyncio.run(VERBS[verb](folder))


NOBODY = 65534
VERBS = {"open": open_only, "full": full, "read-only": read_only}

if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
