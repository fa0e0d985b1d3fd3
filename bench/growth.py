"""How all that a user waits for grows with the sessions that are open, up to 2,000, and with the length of a
conversation, up to 500 turns: turns, first turns, deltas, memory, and what a kill -9 costs.

Rules: two gateways in processes of their own, one that holds a single conversation and one that fills up; what is
measured is taken in turns, so a busy minute falls on both. The few new sessions that are measured at each step stay, in
both. Every conversation keeps its seat on the agent (`seats_max` is raised for it). A ratio of 1 is a cost that does
not grow. Tool calls have no agent in the way: how they grow is told by `bridge`.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench._gateway.client import Client
from bench._gateway.process import Running, gateway
from bench._gateway.turns import CLIENTS, timed
from bench.measure import Report, interleave
from ostler.process.tree import measure

SESSIONS = (1, 20, 100, 500, 2000)
LENGTHS = (40, 100, 250, 500)
NEWCOMERS, STREAMS, DELTAS, KILLS = 8, 5, 20_000, 3
"""At each step: new sessions, streams and the deltas of each; and at the end kills of each gateway."""
WORD = "the last word before the kill"
Way = Callable[[Client, str], Awaitable[float]]
ROOM = {
    "OSTLER_GATEWAY__SEATS_MAX": "2200",
    "OSTLER_POOL__MAX_PROCESSES": "12",
    "OSTLER_POOL__MAX_PROCESSES_PER_KEY": "12",
}
MIB = 2**20


def run(quick: bool) -> Report:
    """Both growths."""
    report = Report("growth: sessions that are open, and the length of a conversation")
    most, longest = (100, 100) if quick else (SESSIONS[-1], LENGTHS[-1])
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as name:
        small, large = Path(name) / "few", Path(name) / "many"
        for part in (small, large):
            part.mkdir()
        with gateway(small, **ROOM) as few, gateway(large, **ROOM) as many:
            asyncio.run(by_sessions(report, few, many, rounds=40 if quick else 200, most=most))
            asyncio.run(by_length(report, few, rounds=10 if quick else 40, most=longest))
        after_a_kill(report, small, large, most=most, longest=longest, rounds=1 if quick else KILLS)
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
        new = await side_by_side(timed, alone, crowded, [f"new {count} {number}" for number in range(NEWCOMERS)])
        deltas = await side_by_side(streamed, alone, crowded, ["stream"] * STREAMS)
        for client in (alone, crowded):
            await client.close()
        sizes.append((count, many.memory, agents_memory(many)))
        report.row(f"turn with {count} sessions open", "ms", found[count][1])
        report.row(f"first turn of a new session with {count} open", "ms", [each * 1e3 for each in new[1]])
        report.row(f"deltas of one stream with {count} sessions open", "per s", deltas[1])
    for count, own, agents in sizes:
        report.row(f"gateway, {count} sessions open", "MB RSS", [own])
        report.row(f"agents, {count} sessions open", "MB PSS", [agents])
    (first, own, agents), (last, own_then, agents_then) = sizes[0], sizes[-1]
    each = (own_then - own) / (last - first), (agents_then - agents) / (last - first)
    report.row("gateway, each further session", "MB", [each[0]])
    report.row("demo agents, each further session", "MB", [each[1]])
    name = f"{last} open"
    for title, unit, scale, (held, grown) in (
        (f"A turn with {last} sessions open", "ms", 1.0, found[last]),
        (f"The first turn of a new session with {last} open", "ms", 1e3, new),
        (f"Deltas of one stream with {last} sessions open", "per s", 1.0, deltas),
    ):
        bars = {name: [each * scale for each in grown], "1 open": [each * scale for each in held]}
        report.compare(title, unit, bars, against="1 open", more=unit == "per s")


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
        report.row(f"gateway, a conversation of {length} turns", "MB RSS", [running.memory])
        report.row(f"agents, a conversation of {length} turns", "MB PSS", [agents_memory(running)])
    both = {f"turns up to {most}": old, "turns 2 to 6": young}
    report.compare(f"The {most}th turn of a conversation", "ms", both, against="turns 2 to 6")
    streams = [(await streamed(client, "old"), await streamed(client, "young stream")) for _ in range(STREAMS)]
    report.row(f"deltas of one stream after {most} turns", "per s", [one for one, _ in streams])
    report.row("deltas of one stream after 2 turns", "per s", [other for _, other in streams])
    await client.close()


async def side_by_side(way: Way, alone: Client, crowded: Client, names: list[str]) -> tuple[list[float], list[float]]:
    """The same on both gateways, in turns; every other time the other one first."""
    held, grown = list[float](), list[float]()
    for number, name in enumerate(names):
        both = [(alone, held), (crowded, grown)]
        for client, samples in both if number % 2 else reversed(both):
            samples.append(await way(client, name))
    return held, grown


async def streamed(client: Client, name: str) -> float:
    """Deltas a second of one stream of this conversation, which has begun before."""
    await client.ask("hello", conversation=name)
    began = time.perf_counter()
    await client.ask(f"!stream {DELTAS}", conversation=name, stream=True)
    return DELTAS / (time.perf_counter() - began)


def after_a_kill(report: Report, small: Path, large: Path, *, most: int, longest: int, rounds: int) -> None:
    """Until a conversation goes on: one of few, one of many, and a long one."""
    few, many, long = "few sessions", f"{most} sessions", f"a conversation of {longest} turns"
    cases = {
        few: lambda: revived(small, "kept"), many: lambda: revived(large, "kept"), long: lambda: revived(small, "old")
    }  # fmt: skip
    found = interleave(cases, rounds=rounds, warmup=0)
    for name in (many, long):
        title = f"kill -9 of a gateway, {name}, until it goes on"
        report.compare(title, "ms", {name: found[name], few: found[few]}, against=few)


def revived(folder: Path, name: str) -> float:
    """Milliseconds from the kill to an answer of this conversation that knows what was said last before it."""

    async def say(port: int, word: str) -> bytes:
        client = await Client.to(port)
        answer = await client.ask(word, conversation=name)
        await client.close()
        return answer

    with gateway(folder, **ROOM) as running:
        asyncio.run(say(running.port, WORD))
        began = time.perf_counter()
        running.process.kill()
        running.process.wait()
    with gateway(folder, **ROOM) as running:
        said = asyncio.run(say(running.port, "!recall"))
        took = time.perf_counter() - began
    assert WORD.encode() in said, said[-300:]
    return took * 1e3


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
