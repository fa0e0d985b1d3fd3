"""How a turn and its memory grow with the sessions that are open, up to 2,000, and with the length of a conversation.

Rules: two gateways in processes of their own, one that holds a single conversation all the time and one that fills up;
their turns are taken in turns, so a busy minute falls on both. Every conversation keeps its seat on the agent
(`seats_max` is raised for it). A ratio of 1 is a cost that does not grow.
"""

import asyncio
import random
import tempfile
from pathlib import Path

from bench._gateway.client import Client
from bench._gateway.process import Running, gateway
from bench._gateway.turns import CLIENTS, timed
from bench.measure import Report
from ostler.pool.process.tree import measure

SESSIONS = (1, 20, 100, 500, 2000)
LENGTHS = (40, 100, 250, 500)
ROOM = {
    "OSTLER_GATEWAY__SEATS_MAX": "2100",
    "OSTLER_POOL__MAX_PROCESSES": "12",
    "OSTLER_POOL__MAX_PROCESSES_PER_KEY": "12",
}
MIB = 2**20


def run(quick: bool) -> Report:
    """Both growths."""
    report = Report("growth: sessions that are open, and the length of a conversation")
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as name:
        for part in ("few", "many"):
            (Path(name) / part).mkdir()
        with gateway(Path(name) / "few", **ROOM) as few, gateway(Path(name) / "many", **ROOM) as many:
            most = 100 if quick else SESSIONS[-1]
            asyncio.run(by_sessions(report, few, many, rounds=40 if quick else 200, most=most))
            asyncio.run(by_length(report, few, rounds=10 if quick else 40, most=100 if quick else LENGTHS[-1]))
    return report


async def by_sessions(report: Report, few: Running, many: Running, *, rounds: int, most: int) -> None:
    """Turns of conversations drawn by lot, beside those of the only conversation elsewhere."""
    draw = random.Random(1)
    opened = 0
    sizes: list[tuple[int, float, float]] = []
    found: dict[int, tuple[list[float], list[float]]] = {}
    for count in (step for step in SESSIONS if step <= most):
        await fill(many.port, range(opened, count))
        opened = count
        # Fresh connections: those of the step before were closed as idle while the new conversations were begun.
        alone, crowded = await Client.to(few.port), await Client.to(many.port)
        await timed(alone, "session 0")
        pairs = [
            (await timed(alone, "session 0"), await timed(crowded, f"session {draw.randrange(count)}"))
            for _ in range(rounds)
        ]
        found[count] = ([one * 1e3 for one, _ in pairs], [other * 1e3 for _, other in pairs])
        for client in (alone, crowded):
            await client.close()
        sizes.append((count, many.memory, agents_memory(many)))
        report.row(f"turn with {count} sessions open", "ms", found[count][1])
    for count, own, agents in sizes:
        report.row(f"gateway, {count} sessions open", "MB RSS", [own])
        report.row(f"agents, {count} sessions open", "MB PSS", [agents])
    (first, own, agents), (last, own_then, agents_then) = sizes[0], sizes[-1]
    each = (own_then - own) / (last - first), (agents_then - agents) / (last - first)
    report.row("gateway, each further session", "MB", [each[0]])
    report.row("demo agents, each further session", "MB", [each[1]])
    held, grown = found[last]
    report.compare(f"A turn with {last} sessions open", "ms", {f"{last} open": grown, "1 open": held}, against="1 open")


async def by_length(report: Report, running: Running, *, rounds: int, most: int) -> None:
    """The turns of an old conversation beside those of one that has just begun."""
    client = await Client.to(running.port)
    length, young, old = 0, [0.0], [0.0]
    for goal in (step for step in LENGTHS if step <= most):
        # The turns that are measured make it longer too: the last of them reaches the goal.
        while length < goal - rounds:
            await timed(client, "old")
            length += 1
        young, old, begun = [], [], length + 1
        for number in range(rounds):
            name = f"young {goal} {number // 5}"
            if number % 5 == 0:
                await timed(client, name)
            old.append(await timed(client, "old") * 1e3)
            young.append(await timed(client, name) * 1e3)
            length += 1
        report.row(f"turns {begun} to {length} of a conversation", "ms", old)
        report.row("turns 2 to 6, taken between those", "ms", young)
    both = {f"turns up to {most}": old, "turns 2 to 6": young}
    report.compare(f"The {most}th turn of a conversation", "ms", both, against="turns 2 to 6")
    await client.close()


async def fill(port: int, numbers: range) -> None:
    """Begin these conversations, eight at a time."""

    async def some(share: int) -> None:
        client = await Client.to(port)
        for number in numbers[share::CLIENTS]:
            await client.ask("hello", conversation=f"session {number}")
        await client.close()

    await asyncio.gather(*map(some, range(CLIENTS)))


def agents_memory(running: Running) -> float:
    """MB of everything that the gateway started."""
    return measure({child.pid for child in running.process.children(recursive=True)}).pss / MIB
