"""What a turn costs besides the agent: a whole gateway in a process of its own, the demo agent, durable storage.

Rules: what the agent itself needs is measured beside it, on the pool alone, in the same run. The whole takes less than
three minutes; how it is measured is in `bench/_gateway/`.
"""

import asyncio
import tempfile
from pathlib import Path
from statistics import median, quantiles

from bench._gateway.process import Running, gateway
from bench._gateway.streams import BRISK, SLOW, delta_cost, many, many_bare
from bench._gateway.turns import CLIENTS, ages, bare, crowd, strangers, turns
from bench.measure import Report

STREAMS = 500
OLD = 500
"""Turns of a long conversation."""
MANY = 10_000
DELTAS = 20_000


def run(quick: bool) -> Report:
    """Every claim of the gateway; `quick` with fewer turns and streams."""
    report = Report("the gateway: what a turn costs besides its agent")
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as name, gateway(Path(name)) as running:
        report.claim("seconds from start to /readyz", running.ready, at_most=0.6)
        report.claim("RSS idle (MB)", running.memory, at_most=80)
        one_client(report, running, Path(name), 200 if quick else 1000)
        a_long_conversation(report, running, 100 if quick else OLD)
        many_turns(report, running, MANY // 10 if quick else MANY)
        streams(report, running, Path(name), STREAMS // 10 if quick else STREAMS, 20 if quick else 32)
    return report


def one_client(report: Report, running: Running, folder: Path, rounds: int) -> None:
    """What HTTP, the session and the store add to a turn of the pool."""
    alone = milliseconds(asyncio.run(bare(folder, rounds)))
    before = running.cpu
    whole = milliseconds(asyncio.run(turns(running.port, rounds, "one")))
    report.row("gateway CPU of a turn", "ms", [(running.cpu - before) / (rounds + 1) * 1000])
    report.row("turn on the pool alone", "ms", alone)
    report.row("turn over HTTP, stored", "ms", whole)
    report.claim("turn overhead p50 (ms)", median(whole) - median(alone), at_most=3)
    report.claim("turn overhead p99 (ms)", percentile(whole, 99) - median(alone), at_most=12)


def a_long_conversation(report: Report, running: Running, length: int) -> None:
    """Whether its turns become dearer."""
    old, young = asyncio.run(ages(running, length))
    report.row(f"gateway CPU of the last turns before the {length}th", "ms", old)
    report.row("gateway CPU of a young conversation's turn", "ms", young)
    report.claim(f"the {length}th turn against the 2nd", median(old) / median(young), at_most=1.25)


def many_turns(report: Report, running: Running, count: int) -> None:
    """Eight clients in their conversations, and as many turns in sessions that are never seen again."""
    rate = asyncio.run(crowd(running.port, count // 2 // CLIENTS))
    report.claim(f"turns a second, {CLIENTS} clients", rate, at_least=500)
    asyncio.run(strangers(running.port, count // 2))
    report.claim(f"RSS after {count} turns (MB)", running.memory, at_most=120)


def streams(report: Report, running: Running, folder: Path, count: int, deltas: int) -> None:
    """One fast stream, and many slow ones at once, twice: what one delta more costs is what the brisker streams cost
    more, over what they say more. How often the gateway is woken for nothing but one delta is the agents' pace."""
    report.claim("gateway CPU per delta, one fast stream (us)", asyncio.run(delta_cost(running, DELTAS)), at_most=40)
    alone = asyncio.run(many_bare(folder, count, deltas))
    slow = asyncio.run(many(running, count, deltas, SLOW))
    brisk = asyncio.run(many(running, count, round(deltas * SLOW / BRISK), BRISK))
    heard = slow.gaps
    report.row(f"gap between deltas, {count} streams on the pool alone", "ms", milliseconds(alone.seconds))
    report.row(f"gap between deltas, {count} streams over HTTP", "ms", milliseconds(heard.seconds))
    report.claim("streams that were told everything", heard.whole + brisk.gaps.whole, at_least=2 * count)
    added = percentile(heard.seconds, 99) - percentile(alone.seconds, 99)
    report.claim(f"gap added p99, {count} streams (ms)", added * 1000, at_most=50)
    report.row(f"CPU of a delta and of waking up for it, {count} streams of {1 / SLOW:g}/s", "us", [slow.amid.each])
    report.row(f"CPU of a delta and of waking up for it, {count} streams of {1 / BRISK:g}/s", "us", [brisk.amid.each])
    report.row(f"CPU of whole turns, by their {deltas} deltas", "us", [slow.whole.each])
    # Few streams are too few deltas to tell two loads apart: then it is no claim.
    bound = 40 if count == STREAMS else None
    report.claim(f"gateway CPU of one delta more, {count} streams (us)", (brisk.amid - slow.amid).each, at_most=bound)


def milliseconds(samples: list[float]) -> list[float]:
    return [sample * 1000 for sample in samples]


def percentile(samples: list[float], share: int) -> float:
    """The value that so many percent do not exceed."""
    return quantiles(samples, n=100)[share - 1]
