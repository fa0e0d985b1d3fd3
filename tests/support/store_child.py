"""A process that writes into a store and says what was acknowledged: `python -m tests.support.store_child VERB ...`.

`write FOLDER SESSIONS` appends until it is killed: a line `session number` on stdout for every acknowledged message,
and `turn session number` for every acknowledged turn with response and slug. `open FOLDER` opens, prints and ends.
`full FOLDER` fills a disk and goes on when there is room; `read-only FOLDER` may not write for a while; `shut FOLDER`
may not even look into its folder for a while. `looks FOLDER` meets the errors of a disk, `stuck FOLDER` a disk that
does not answer: both need `tools.faults.disk`.
"""

import asyncio
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

from ostler.gateway.model.errors import StoreDiskFault, StoreError, StoreFull, StoreReadOnly
from ostler.gateway.model.records import NewSession, TurnCommit
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.stores.sqlite.connection import connect_reader, value
from ostler.metrics.loops import Loops
from tests.support.stores import response, said, texts
from tests.support.waiting import eventually
from tools.faults.disk import STUCK, set_fault


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
    found = [slug for slug in ("one", "two") if await store.get_conversation(slug) is not None]
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


MANY = 20


async def shut(folder: Path) -> None:
    """The folder of the store is closed to its owner, too: every look is refused with EACCES."""
    loops = Loops()
    store = await SqliteStore.open(folder / "data" / "ostler.db", loops=loops)
    await store.create_session(NewSession("sess_p"))
    await outlive(store, loops, lambda wrong: (folder / "data").chmod(0o000 if wrong else 0o700))
    await store.aclose()


async def looks(folder: Path) -> None:
    """The disk refuses every look, by one error after the other."""
    loops, fault = Loops(), Path(os.environ["DISK_FAULT_FILE"])
    store = await SqliteStore.open(folder / "ostler.db", loops=loops)
    await store.create_session(NewSession("sess_p"))
    for number in (errno.EACCES, errno.EIO, errno.ESTALE):

        def switch(wrong: bool, number: int = number) -> None:
            set_fault(fault, number if wrong else 0)

        await outlive(store, loops, switch)
    await store.aclose()


async def outlive(store: SqliteStore, loops: Loops, switch: Callable[[bool], None]) -> None:
    """A fault for a moment, then for as long as it takes until it is seen from outside, and nobody writes meanwhile."""
    async with asyncio.timeout(300):
        switch(True)
        told = await asyncio.gather(
            *(store.append("sess_p", [said("never")]) for _ in range(MANY)), return_exceptions=True
        )
        switch(False)
        assert all(isinstance(one, StoreError) for one in told), told
        await store.append("sess_p", [said("after")])
        assert loops.broken() == []
        switch(True)
        while not loops.broken():
            refused = await asyncio.gather(store.append("sess_p", [said("never")]), return_exceptions=True)
            assert isinstance(refused[0], StoreError), refused
        seen = loops.broken()
        switch(False)
        await eventually(lambda: not loops.broken(), "the thread is to find out by itself that it can write again")
        await store.append("sess_p", [said("after")])
        assert set(texts(await store.history("sess_p"))) == {"after"}
    tell(f"{sorted({type(one).__name__ for one in told})} {seen}")


async def stuck(folder: Path) -> None:
    """A disk that does not come back from a sync: who writes later is refused at once, and it is seen from outside."""
    now = [0.0]
    loops, fault = Loops(lambda: now[0]), Path(os.environ["DISK_FAULT_FILE"])
    store = await SqliteStore.open(folder / "ostler.db", loops=loops)
    await store.create_session(NewSession("sess_p"))
    set_fault(fault, STUCK)
    waiting = asyncio.ensure_future(store.append("sess_p", [said("waits")]))
    async with asyncio.timeout(300):
        await eventually(lambda: loops.broken() or now.append(now.pop() + 10.0), "the thread is to be seen stuck")
        try:
            await store.append("sess_p", [said("never")])
        except StoreDiskFault as refused:
            tell(str(refused))
        tell(str(loops.broken()))
        assert texts(await store.history("sess_p")) == []
        set_fault(fault, 0)
        await waiting
        await eventually(lambda: not loops.broken(), "the thread is to find out by itself that it can write again")
        await store.append("sess_p", [said("after")])
    tell(" ".join(texts(await store.history("sess_p"))))
    await store.aclose()


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
    if verb in {"read-only", "shut"}:
        be_nobody(folder)
    asyncio.run(VERBS[verb](folder))


NOBODY = 65534
VERBS = {"open": open_only, "full": full, "read-only": read_only, "shut": shut, "looks": looks, "stuck": stuck}

if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
