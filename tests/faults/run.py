"""The order of events: one gateway after the other on one folder, the same conversations with all of them."""

import asyncio
import itertools
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.faults import canary
from tests.faults.clock import WallClock
from tests.faults.conversation import Conversation
from tests.faults.gate import Gate
from tests.faults.judge import judge
from tests.faults.scene import API_KEY, Scene, Weight
from tests.faults.upsets import UPSETS, WEIGHTS

CONVERSATIONS = 40
PAUSE = 0.6
"""Seconds between two turns of one conversation, on average."""
WARM_UP, UPSET_FOR, LOAD_AGAIN = 4.0, 40.0, 1.5
EPOCH = 3
"""Lives after which the conversations begin anew: replaying ever longer ones would be all that we measure."""
FEW_FILES = 256
CROWD = 400
SAMPLE = 5
MEMORY_SLACK = 32 << 20
REST = 60.0


class Run:
    """One run of the whole."""

    def __init__(self, folder: Path, chance: random.Random, *, inside: bool, full_disk: bool) -> None:
        gate = Gate({"authorization": f"Bearer {API_KEY}"})
        self.scene = Scene(folder, chance, WallClock(folder), gate, inside, full_disk)
        self.verdict: Counter[str] = Counter()
        self._numbers = itertools.count()
        self._upsets = self._draw()

    # --- phases ---

    async def starve(self) -> None:
        """A gateway that may open few files: it refuses, it does not die, and afterwards all is as before."""
        scene = self.scene
        async with self._conversations(CONVERSATIONS // 2) as conversations:
            with scene.serving() as running:
                resource.prlimit(scene.pid, resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))
                async with scene.gate.opened(scene.base):
                    await asyncio.sleep(WARM_UP)
                base = await self._rest()
                async with scene.gate.opened(scene.base):
                    await self._crowd()
                    answered = sum(len(one.answered) for one in conversations)
                    await asyncio.sleep(WARM_UP)
                    more = sum(len(one.answered) for one in conversations) - answered
                    scene.expect(more > len(conversations), f"only {more} answers after the files ran out")
                self._compare(base, await self._rest(), "files ran out")
                await self._end_well(running.end)
            self._judge(conversations)

    async def live(self, seconds: float) -> None:
        """Lives until the time is over; the last one ends well."""
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            async with self._conversations(CONVERSATIONS) as conversations:
                for number in range(EPOCH):
                    last = number == EPOCH - 1 or time.monotonic() + UPSET_FOR > over
                    await self._life(min(UPSET_FOR, seconds / 2), last=last, conversations=conversations)
                    if last:
                        break
                self._judge(conversations)
            print(f"  {max(0.0, over - time.monotonic()):.0f} s left, {len(self.scene.broken)} breaks", flush=True)

    async def _life(self, seconds: float, *, last: bool, conversations: list[Conversation]) -> None:
        scene = self.scene
        with scene.serving() as running:
            async with scene.gate.opened(scene.base):
                await asyncio.sleep(WARM_UP)
            base = await self._rest()
            async with scene.gate.opened(scene.base):
                await self._upset(seconds)
            self._compare(base, await self._rest(), "a life with upsets")
            scene.expect(running.process.poll() is None, "the gateway died by itself")
            async with scene.gate.opened(scene.base):
                await asyncio.sleep(scene.chance.uniform(0.2, LOAD_AGAIN))
                if not last:
                    self._kill(running.end)
            if last:
                await self._ask_around(conversations)
            scene.counts["failures of the gateway's own in its log"] += len(
                [line for line in running.logged if line.get("level") == "error"]
            )
            if last:
                await self._end_well(running.end)
        # In every other life the next gateway is there before the last one's agents can have gone.
        if not last and scene.chance.random() < 0.5:
            await self._nobody_left()

    # --- parts of a life ---

    async def _upset(self, seconds: float) -> None:
        """One upset after the other, some at the same time."""
        scene, over = self.scene, time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < over:
                name = next(self._upsets)
                scene.counts[f"upset: {name}"] += 1
                task = group.create_task(UPSETS[name](scene))
                if scene.chance.random() < 0.7:
                    await asyncio.wait([task])
                await asyncio.sleep(scene.chance.uniform(0.05, 0.8))

    def _draw(self) -> Iterator[str]:
        """Every kind once, in random order; then by weight."""
        first = [*UPSETS]
        self.scene.chance.shuffle(first)
        yield from first
        while True:
            yield self.scene.chance.choices([*WEIGHTS], [*WEIGHTS.values()])[0]

    def _kill(self, end: object) -> None:
        scene = self.scene
        if scene.chance.random() < 0.3:
            scene.gateway.process.send_signal(signal.SIGSTOP)
            scene.counts["gateways killed while stopped"] += 1
        assert callable(end)
        end(signal.SIGKILL)
        scene.counts["gateways killed"] += 1

    async def _crowd(self) -> None:
        """More clients than there are files, all of whom stay for a while."""
        opening = [asyncio.open_connection("127.0.0.1", self.scene.port) for _ in range(CROWD)]
        there = [one for one in await asyncio.gather(*opening, return_exceptions=True) if isinstance(one, tuple)]
        self.scene.counts["clients of a gateway without files"] += len(there)
        await asyncio.sleep(3.0)
        self.scene.expect(self.scene.gateway.process.poll() is None, "without files the gateway died")
        for _, writer in there:
            writer.close()

    async def _rest(self) -> Weight:
        """Nobody talks: the seats and the connections go, and then it is weighed."""
        scene = self.scene
        await scene.until(lambda: not scene.connections(), "every connection is gone", REST)
        await asyncio.sleep(6.0)
        return scene.weigh()

    def _compare(self, base: Weight, now: Weight, after: str) -> None:
        scene = self.scene
        grown = (now.memory - base.memory) >> 20
        more = dict(now.listed - base.listed)
        scene.expect(now.files <= base.files, f"after {after}: {now.files} files are open, {base.files} were: {more}")
        scene.expect(now.memory - base.memory <= MEMORY_SLACK, f"after {after}: {grown} MB more than before")
        print(
            f"  after {after}: files {base.files} -> {now.files}, MB {base.memory >> 20} -> {now.memory >> 20}, "
            f"agents {base.agents} -> {now.agents}",
            flush=True,
        )

    async def _ask_around(self, conversations: list[Conversation]) -> None:
        """The agent of a conversation knows every question that was answered."""
        scene = self.scene
        async with scene.gate.aside(scene.base) as http:
            for one in scene.chance.sample(conversations, SAMPLE):
                known = canary.turns(await one.recall(http), canary.QUESTION)
                scene.counts["agents asked for all they know"] += 1
                if forgotten := one.answered - set(known):
                    scene.broken.append(f"{one.name}: its agent knows {known}, and not {sorted(forgotten)}")

    # --- ends ---

    async def _end_well(self, end: object) -> None:
        assert callable(end)
        code = await asyncio.to_thread(end)
        self.scene.expect(code == 0, f"the gateway ended with {code}")
        await self._nobody_left()

    async def _nobody_left(self) -> None:
        scene = self.scene
        scene.counts["looks for orphans"] += 1
        if not await scene.until(lambda: not scene.strays(), "no process of a dead gateway is left", 15.0):
            self.verdict["orphans"] += len(scene.strays())
            scene.broken += scene.strays()

    @asynccontextmanager
    async def _conversations(self, many: int) -> AsyncIterator[list[Conversation]]:
        """They live in the background, through all gateways."""
        scene = self.scene
        conversations = [Conversation(next(self._numbers)) for _ in range(many)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.live(scene.gate, scene.chance, PAUSE)) for one in conversations]
            yield conversations
            for task in tasks:
                task.cancel()

    def _judge(self, conversations: list[Conversation]) -> None:
        scene, verdict = self.scene, judge(conversations, self.scene.folder / "data")
        scene.counts.update(verdict.looked_at)
        scene.broken += verdict.findings
        self.verdict.update({kind: len(lines) for kind, lines in verdict.by_kind().items()})
        for one in conversations:
            scene.counts["messages sent"] += one.sent
            scene.counts.update({f"turns, {what}": many for what, many in one.told.items()})
            scene.broken += one.wrong
            self.verdict["leaked"] += sum("was told words of" in line for line in one.wrong)
