"""Random life on one pool: sessions that talk, cancel, get lost, come back and forget to say goodbye, while an operator
and an enemy do what such people do. Every prompt and every tool result carries a word of its own session.

Rules:
- What may go wrong goes wrong as a `PoolError` or as a failed turn; anything else is a break.
- An answer of somebody else's is a break, whatever else happens.
- Random numbers come from one seed; what the processes do with their time does not.
"""

import asyncio
import os
import random
import signal
from contextlib import suppress

import psutil

from ostler.pool import Lease, TransportKey
from ostler.pool.errors import PoolError
from ostler.pool.events import Finished, StopReason, Text
from ostler.pool.order import SessionMemo
from tools.churn.world import PROCESSES, TOOLS, World

SESSIONS = 12
PATIENCE = 90.0
"""Seconds for the last turns and claims: far above every deadline that they have."""


async def churn(world: World, seconds: float, chance: random.Random) -> None:
    """Live for so long, then let everybody finish."""
    over = asyncio.Event()
    others = [asyncio.create_task(one(world, over, chance)) for one in (operate, attack, inspect)]
    guests = [asyncio.create_task(guest(world, over, chance, number)) for number in range(SESSIONS)]
    # Whoever dies of a bug ends it early, and the gather raises it.
    await asyncio.wait([*others, *guests], timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    over.set()
    _, hanging = await asyncio.wait([*others, *guests], timeout=PATIENCE)
    for task in hanging:
        world.tally.expect(False, f"it never came back: {[str(frame) for frame in task.get_stack()]}")
        task.cancel()
    await asyncio.gather(*others, *guests, return_exceptions=bool(hanging))


async def inspect(world: World, over: asyncio.Event, _chance: random.Random) -> None:
    while not over.is_set():
        world.inspect()
        await pause(over, 0.1)


async def pause(over: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(over.wait(), seconds)


# -- sessions ---------------------------------------------------------------------------------------------------------


async def guest(world: World, over: asyncio.Event, chance: random.Random, number: int) -> None:
    """One session after the other."""
    serial = 0
    while not over.is_set():
        serial += 1
        talk = Talk(world, chance, f"word-{number}-{serial}-end", f"owner-{number % 5}")
        try:
            await talk.live(over)
        except PoolError as error:
            world.tally.counts[f"refused: {type(error).__name__}"] += 1
            await pause(over, chance.random() * 0.05)
        finally:
            talk.leave()


class Talk:
    """One session with its word."""

    def __init__(self, world: World, chance: random.Random, word: str, owner: str) -> None:
        self.world = world
        self.chance = chance
        self.word = word
        self.owner = owner
        self.key: TransportKey = chance.choice(world.keys())
        self.lease: Lease | None = None
        self.said = 0
        """Turns that carried the word and ended well: they are in the agent's history."""
        self.tried = 0
        """Those that failed, because the process died under them: they may be there or not."""

    async def live(self, over: asyncio.Event) -> None:
        if self.chance.random() < 0.15:
            await self.walk_away()
        await self.sit(None)
        for _ in range(self.chance.randint(1, 6)):
            if over.is_set():
                return
            await self.turn()
            if self.lease is not None and (self.lease.move or self.lease.lost):
                await self.move()

    async def sit(self, resume: SessionMemo | None) -> Lease:
        lease = await self.world.pool.lease(self.key, tools=TOOLS, owner=self.owner, deadline=20, resume=resume)
        self.world.publish(lease, self.word)
        self.world.held[lease.id] = lease
        self.lease = lease
        if not lease.restored:
            self.said = self.tried = 0
        self.world.tally.counts[f"leases, {lease.warmth}"] += 1
        return lease

    def leave(self) -> None:
        """Most release; a few forget, and the collector has to do it."""
        lease, self.lease = self.lease, None
        if lease is not None:
            self.world.held.pop(lease.id, None)
            if self.chance.random() < 0.95:
                lease.release()

    async def move(self) -> None:
        """To another seat, with the agent's own record of the session where there is one."""
        lease = self.lease
        assert lease is not None
        self.world.tally.counts["moves" if lease.lost is None else "losses"] += 1
        memo = lease.session.memo
        self.leave()
        await self.sit(memo if self.chance.random() < 0.5 else None)

    async def walk_away(self) -> None:
        """A claim whose claimer does not wait for it."""
        task = asyncio.create_task(self.world.pool.lease(self.key, tools=TOOLS, owner=self.owner, deadline=20))
        await asyncio.sleep(self.chance.random() * 0.05)
        task.cancel()
        try:
            (await task).release()
        except (asyncio.CancelledError, PoolError):
            self.world.tally.counts["claims walked away from"] += 1

    async def turn(self) -> None:
        kind = self.chance.choice(("echo", "recall", "tool", "cancel", "drop"))
        lease = self.lease
        assert lease is not None
        order = {"echo": f"{self.word} says", "recall": "!recall", "tool": "!call whoami {}"}.get(kind, "!sleep 5")
        turn = await lease.prompt(order)
        if kind in ("cancel", "drop"):
            await asyncio.sleep(self.chance.random() * 0.02)
            turn.cancel()
        pieces: list[str] = []
        ends: list[Finished] = []
        async for event in turn:
            if isinstance(event, Text):
                pieces.append(event.text)
            elif isinstance(event, Finished):
                ends.append(event)
        self.world.tally.counts[f"turns, {ends[-1].reason.value}" if ends else "turns without an end"] += 1
        self.world.tally.expect(len(ends) == 1, f"a turn had {len(ends)} ends")
        if ends and ends[0].reason is StopReason.DONE:
            self.judge(kind, "".join(pieces))
        if kind == "echo":
            done = bool(ends) and ends[0].reason is StopReason.DONE
            self.said, self.tried = self.said + done, self.tried + (not done)

    def judge(self, kind: str, answer: str) -> None:
        """Nothing of anybody else, and what is ours is there."""
        expect = self.world.tally.expect
        strange = [word for word in answer.split() if word.startswith("word-") and word != self.word]
        expect(not strange, f"{self.word} was told {strange}")
        if kind == "echo":
            expect(answer == f"echo: {self.word} says", f"{self.word} got {answer!r} for its echo")
        elif kind == "tool":
            honest = answer == self.word or answer.startswith("error")
            expect(honest, f"{self.word} got {answer!r} from its tool")
            self.world.tally.counts["tool calls" if answer == self.word else "tool calls with an error"] += 1
        elif kind == "recall":
            known = self.said <= answer.count(self.word) <= self.said + self.tried
            expect(known, f"{self.word} x {self.said} (+ {self.tried} tried) came back as {answer!r}")


# -- those who disturb ------------------------------------------------------------------------------------------------


async def operate(world: World, over: asyncio.Event, chance: random.Random) -> None:  # noqa: C901 (a table of verbs)
    """Every verb an operator has."""
    pool = world.pool
    while not over.is_set():
        await pause(over, 0.05 + chance.random() * 0.4)
        key = chance.choice(world.keys())
        slots = [one.slot for one in pool.snapshot().processes]
        verb = chance.choice(
            (
                "recycle",
                "kill",
                "drain",
                "warm",
                "floor",
                "cool",
                "pause",
                "reload",
                "reload same",
                "reconnect",
                "limits",
            )
        )
        match verb:
            case "recycle" if slots:
                pool.recycle(chance.choice(slots))
            case "kill" if slots and chance.random() < 0.3:
                pool.kill(chance.choice(slots))
            case "drain":
                pool.drain(key)
            case "warm":
                pool.warm(key, TOOLS, chance.randint(1, 3))
            case "floor":
                pool.warm(key, TOOLS, 0)
            case "cool":
                pool.cool(key)
            case "pause":
                pool.pause(key)
                await pause(over, chance.random() * 0.2)
                pool.resume(key)
            case "reload":
                world.epoch += 1
                pool.reload(world.settings(), world.environ())
            case "limits":
                pool.reload(world.settings(chance.randint(2, PROCESSES)), world.environ())
            case "reload same":
                pool.reload(world.settings(), world.environ())
            case "reconnect":
                pool.reconnect(key)
            case _:
                continue  # there is no process to recycle or to kill
        world.tally.counts[f"operator: {verb}"] += 1


async def attack(world: World, over: asyncio.Event, chance: random.Random) -> None:
    """kill -9, now of an agent, now of a relay."""
    while not over.is_set():
        await pause(over, 0.3 + chance.random() * 1.5)
        agents, relays = world.agents(), world.relays()
        if agents and chance.random() < 0.5:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(agents), signal.SIGKILL)
                world.tally.counts["agents killed"] += 1
        elif relays:
            with suppress(psutil.NoSuchProcess):
                chance.choice(relays).kill()
                world.tally.counts["relays killed"] += 1
