"""What a claim of a parked seat costs inside the gateway's process, with a thousand leases live.

Rules: the clock is the wall's. A claim waits for nothing, so a sample in which the kernel gave the processor to
somebody else measures the machine and not the pool: those are counted, kept out of the claims and shown in a row
of their own.
"""

import asyncio
import resource
from statistics import median, quantiles
from time import perf_counter

from bench._pool.ground import Ground, House, open_house
from bench.measure import Report
from ostler.pool import Lease, Limits, PoolSettings, TransportKey, WarmKey

LIVE = 1000
AHEAD = 8


async def run(ground: Ground, report: Report) -> None:
    """Adds the figures."""
    count = 300 if ground.quick else 3000
    key = TransportKey("demo", "demo", ground.work)
    limits = Limits(max_processes=12, max_processes_per_key=12, starts_per_second=100, start_burst=12)
    async with open_house(ground, PoolSettings(limits=limits, warm=(WarmKey(key, seats=AHEAD),))) as deps:
        live: list[Lease] = []
        while len(live) < LIVE:
            live += await asyncio.gather(*(deps.pool.lease(key, owner=f"owner-{n}") for n in range(50)))
        calm, torn = await claims(deps, key, count)
        census = deps.pool.snapshot().core.census
        for lease in live:
            lease.release()
    assert census.leased >= LIVE, census
    report.row(f"claim of a parked seat, {LIVE} leases live", "us", [one * 1e6 for one in calm])
    if torn:
        report.row("the same where the kernel took the processor away", "us", [one * 1e6 for one in torn])
    report.claim("claim of a parked seat: p50, us", median(calm) * 1e6, at_most=100)
    report.claim("claim of a parked seat: p99, us", quantiles(calm, n=100)[98] * 1e6, at_most=1000)


async def claims(deps: House, key: TransportKey, count: int) -> tuple[list[float], list[float]]:
    """Seconds of each claim: undisturbed ones, and those within which another process ran on our core."""
    calm: list[float] = []
    torn: list[float] = []
    while len(calm) < count:
        await deps.settled(lambda: deps.parked() >= AHEAD // 2)
        for _ in range(AHEAD // 2):
            switched = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
            began = perf_counter()
            lease = await deps.pool.lease(key, owner="new")
            took = perf_counter() - began
            disturbed = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw != switched
            assert lease.warmth == "parked", lease.warmth
            (torn if disturbed else calm).append(took)
            lease.release()
    return calm, torn
