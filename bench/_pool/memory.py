"""Memory of each gemini session with tools, at 1, 20 and 100 sessions that are open: shared processes, and one each.

Rules: everything that an agent started counts, relays too, and so do the seats that the pool keeps parked; shared pages
are shared out (PSS). The plain client's processes are measured up to twenty: a hundred of them would want more memory
than most machines have, and each costs what the twentieth does.
"""

import asyncio

from bench._pool.crowd import visit
from bench._pool.first_prompt import GENEROUS
from bench._pool.ground import MIB, TOOLS, Ground, open_house, tree_pss
from bench._pool.plain import PlainSession
from bench.measure import Report
from ostler.pool import Lease, PoolSettings, WarmKey

COUNTS = (1, 20, 100)
APART = 20
AT_ONCE = 4


async def run(ground: Ground, report: Report) -> None:
    """Adds the figures."""
    counts = (1, 6) if ground.quick else COUNTS
    shared = await together(ground, counts)
    separate = await apart(ground, [count for count in counts if count <= APART])
    for count, pss in shared.items():
        most = max(known for known in separate if known <= count)
        theirs = separate[most] / most
        ours = pss / count
        report.row(f"{count} sessions with tools, shared", "MB PSS", [pss / MIB])
        each = "a process each" if most == count else f"a process each, {most} measured"
        name, bars = f"Memory per gemini session with tools, {count} open", {"pool": ours / MIB, each: theirs / MIB}
        report.headline(name, "MB", bars, theirs / ours, against=each)
    for count, pss in separate.items():
        report.row(f"{count} sessions with tools, a process each", "MB PSS", [pss / MIB])


async def together(ground: Ground, counts: tuple[int, ...]) -> dict[int, int]:
    """Bytes of all shared processes when so many sessions have had a turn and stay."""
    leases: list[Lease] = []
    found: dict[int, int] = {}
    async with open_house(ground, PoolSettings(limits=GENEROUS, warm=(WarmKey(ground.key, TOOLS, 2),))) as deps:
        for count in counts:
            while len(leases) < count:
                wanted = range(len(leases), min(count, len(leases) + AT_ONCE))
                await asyncio.gather(*(visit(deps, ground, number, leases) for number in wanted))
            await deps.settled(lambda: deps.parked() >= 2)
            found[count] = deps.pss()
        for lease in leases:
            lease.release()
    return found


async def apart(ground: Ground, counts: list[int]) -> dict[int, int]:
    """Bytes of so many processes with a session each."""
    sessions: list[PlainSession] = []
    found: dict[int, int] = {}
    async with open_house(ground, PoolSettings()) as deps:

        async def one(number: int) -> None:
            plan = ground.launch(ground.primed_home())
            sessions.append(await PlainSession.open(plan, ground.work, deps.bridge, f"plain-{number}"))
            await sessions[-1].first_text(f"hello {number}")

        try:
            for count in counts:
                while len(sessions) < count:
                    begun = len(sessions)
                    await asyncio.gather(*(one(number) for number in range(begun, min(count, begun + AT_ONCE))))
                found[count] = tree_pss([session.process.pid for session in sessions])
        finally:
            for session in sessions:
                await session.end()
    return found
