"""kill -9 of the shared process: who loses a turn, and when does everybody have an answer again, with their history?

The gateway's part is played here: a session whose seat is lost leases anew at its next turn, asks the agent to
load the old session where that can be trusted, and hands its transcript over where it cannot. All of them do so at
once, which is the worst that can happen. Sessions are without tools: with them a gemini needs 35 to 45 ms of its
one thread to open each seat and 20 ms for its turn, so fifty at once are 3 s of one processor however they are
arranged.
"""

import asyncio
import os
import signal
from dataclasses import dataclass, field
from time import perf_counter

from bench._pool.crowd import apart
from bench._pool.ground import Ground, House, first_text, open_house
from bench.measure import Report
from ostler.pool import Lease, Limits, PoolSettings, TransportKey, WarmKey
from ostler.pool.events import Finished, StopReason, Text
from ostler.pool.prompt import TextPart
from ostler.wire.transcript import build_transcript

ATTACHED, RUNNING = 50, 10
ALLOWANCE = 2.0
"""Seconds beyond a cold start."""


@dataclass
class Conversation:
    """A session as its gateway knows it."""

    number: int
    lease: Lease
    told: list[tuple[str, str]] = field(default_factory=list)
    replayed: bool = False

    @property
    def word(self) -> str:
        return f"word-{self.number}-of-nobody-else"

    async def remember(self) -> None:
        """The first turn."""
        _, answer = await first_text(self.lease, self.word)
        self.told = [("user", self.word), ("assistant", answer)]

    async def recall(self, deps: House, key: TransportKey) -> str:
        """The next turn, on whatever seat there is now."""
        memo = self.lease.session.memo
        self.lease.release()
        self.lease = await deps.pool.lease(key, owner=f"owner-{self.number}", resume=memo)
        self.replayed = not self.lease.restored
        earlier = [TextPart(build_transcript(self.told))] if self.replayed else []
        turn = await self.lease.prompt([*earlier, TextPart("!recall")])
        return "".join([event.text async for event in turn if isinstance(event, Text)])


async def run(ground: Ground, report: Report) -> None:
    """Adds the figures of the demo agent and of gemini."""
    await one(ground, report, TransportKey("demo", "demo", ground.work))
    await one(ground, report, ground.key)


async def cold_start(ground: Ground, deps: House, key: TransportKey) -> float:
    """Seconds from nothing to the first text, on this machine at this minute."""
    folder = ground.folder / f"{key.provider}-cold"
    folder.mkdir()
    elsewhere = TransportKey(key.provider, key.model, str(folder))
    began = perf_counter()
    async with await deps.pool.lease(elsewhere) as lease:
        said_at, _ = await first_text(lease, "hello")
    deps.pool.pause(elsewhere)
    deps.pool.drain(elsewhere)
    return said_at - began


async def one(ground: Ground, report: Report, key: TransportKey) -> None:
    """One kill, with sessions attached and turns running."""
    few = ground.quick and key == ground.key
    attached, running = (10, 3) if few else (ATTACHED, RUNNING)
    traits = {"seats_per_process": 2 * ATTACHED, "recycle_after": 4 * ATTACHED}
    settings = PoolSettings(limits=Limits(starts_per_second=10.0), warm=(WarmKey(key, seats=2),))
    async with open_house(ground, settings, traits=traits) as deps:
        cold = await cold_start(ground, deps, key)
        talks = [
            Conversation(number, await deps.pool.lease(key, owner=f"owner-{number}")) for number in range(attached)
        ]
        await asyncio.gather(*(talk.remember() for talk in talks))
        turns = [await talk.lease.prompt("!sleep 30") for talk in talks[:running]]
        pids = {talk.lease.pid for talk in talks}
        assert len(pids) == 1, pids
        began = perf_counter()
        os.kill(pids.pop(), signal.SIGKILL)
        ends = await asyncio.gather(*(turn.ended() for turn in turns))
        lost = sum(isinstance(end, Finished) and end.reason is StopReason.FAILED for end in ends)
        answers = await asyncio.gather(*(talk.recall(deps, key) for talk in talks))
        took = perf_counter() - began
        whole = sum(talk.word in answer for talk, answer in zip(talks, answers, strict=True))
        mixed = sum(
            other.word in answer
            for talk, answer in zip(talks, answers, strict=True)
            for other in talks
            if other is not talk
        )
        for talk in talks:
            talk.lease.release()
    name = f"kill -9, {key.provider}, {attached} attached"
    report.row(f"{name}: a cold start at that minute", "ms", [cold * 1e3])
    report.row(f"{name}: until all have answered", "ms", [took * 1e3])
    if key == ground.key:
        # Clients whose processes were killed do just what a crowd of new ones does.
        if len(ground.crowd_apart) != attached:
            await apart(ground, attached, 1)
        anew = ground.crowd_apart
        bars = {"pool": took * 1e3, "one cold start": cold * 1e3, "plain client, each anew": max(anew) * 1e3}
        rival = "plain client, each anew"
        report.headline(f"{name}, until all have answered", "ms", bars, max(anew) / took, against=rival)
    report.claim(f"{name}: failed turns of {running} running", lost, at_most=running, at_least=running)
    report.claim(f"{name}: sessions with their history", whole, at_least=attached)
    report.claim(f"{name}: sessions with somebody else's history", mixed, at_most=0)
    report.claim(f"{name}: seconds beyond a cold start until all have answered", took - cold, at_most=ALLOWANCE)
    replayed = sum(talk.replayed for talk in talks)
    report.notes.append(f"{name}: {replayed} by transcript, {attached - replayed} by the agent's own load")
