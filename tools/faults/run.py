"""The order of events: one gateway after the other on one folder, the same conversations with all of them."""

import asyncio
import itertools
import random
import resource
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from ostler.gateway.server.heap import EVERY
from tests.support.serve_command import Command
from tests.support.tally import Tally
from tools.faults import canary
from tools.faults.clock import WallClock
from tools.faults.conversation import Conversation, completed
from tools.faults.gate import Gate
from tools.faults.judge import judge
from tools.faults.scene import API_KEY, Scene, Weight, open_files
from tools.faults.upsets import UPSETS, WEIGHTS, upset, without_effect

CONVERSATIONS = 40
PAUSE = 0.6
"""Seconds between two turns of one conversation, on average."""
WARM_UP, UPSET_FOR, LOAD_AGAIN = 4.0, 40.0, 1.5
TURNS_TO_WARM_UP = 3
"""Of each conversation, and no less than `WARM_UP` seconds."""
EPOCH = 3
"""Lives after which the conversations begin anew: replaying ever longer ones would be all that we measure."""
FEW_FILES = 256
CROWD = 400
SAMPLE = 20
LOOKS = 30
"""At the open files of a gateway that has none left."""
MEMORY_SLACK = 32 << 20
REST = 60.0
SENT, KILLED, ORPHANS = "messages sent", "gateways killed", "orphans"


class Run:
    """One run of the whole."""

    def __init__(self, folder: Path, tally: Tally, *, inside: bool, full_disk: bool) -> None:
        gate = Gate({"authorization": f"Bearer {API_KEY}"})
        self.scene = Scene(folder, tally, random.Random(tally.seed), WallClock(folder), gate, inside, full_disk)
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
                    await self._warm_up(conversations)
                base = await self._rest()
                async with scene.gate.opened(scene.base):
                    await self._crowd()
                    enough = answers(conversations) + len(conversations)
                    again = "an answer for each conversation after the files ran out"
                    await scene.until(lambda: answers(conversations) > enough, again, REST)
                self._compare(base, await self._back_to(base), "files ran out")
                self._count_errors(running)
                await self._end_well(running)
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
            print(
                f"  {max(0.0, over - time.monotonic()):.0f} s left, {len(self.scene.tally.broken)} breaks", flush=True
            )

    async def _life(self, seconds: float, *, last: bool, conversations: list[Conversation]) -> None:
        scene = self.scene
        with scene.serving() as running:
            async with scene.gate.opened(scene.base):
                await self._warm_up(conversations)
            base = await self._rest()
            async with scene.gate.opened(scene.base):
                await self._upset(seconds)
            self._compare(base, await self._back_to(base), "a life with upsets")
            scene.tally.expect(running.process.poll() is None, "the gateway died by itself")
            async with scene.gate.opened(scene.base):
                await asyncio.sleep(scene.chance.uniform(0.2, LOAD_AGAIN))
                if not last:
                    self._kill(running)
            if last:
                await self._ask_around(conversations)
            self._count_errors(running)
            if last:
                await self._end_well(running)
        # In every other life the next gateway is there before the last one's agents can have gone.
        if not last and scene.chance.random() < 0.5:
            await self._nobody_left()

    # --- parts of a life ---

    async def _warm_up(self, conversations: list[Conversation]) -> None:
        """Load, until all that is made once by need is made."""
        enough = answers(conversations) + TURNS_TO_WARM_UP * len(conversations)
        await asyncio.sleep(WARM_UP)
        await self.scene.until(lambda: answers(conversations) > enough, "the gateway is warm", REST)

    async def _upset(self, seconds: float) -> None:
        """One upset after the other, some at the same time."""
        scene, over = self.scene, time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < over:
                name = next(self._upsets)
                task = group.create_task(upset(scene, name))
                if scene.chance.random() < 0.7:
                    await asyncio.wait([task])
                await asyncio.sleep(scene.chance.uniform(0.05, 0.8))

    def _draw(self) -> Iterator[str]:
        """Every kind once, in random order; then by weight, and in between those again that did nothing so far."""
        chance = self.scene.chance
        first = [*UPSETS]
        chance.shuffle(first)
        yield from first
        while True:
            if idle := without_effect(self.scene):
                yield chance.choice(idle)
            yield chance.choices([*WEIGHTS], [*WEIGHTS.values()])[0]

    def _kill(self, running: Command) -> None:
        scene = self.scene
        if scene.chance.random() < 0.3:
            running.process.send_signal(signal.SIGSTOP)
            scene.tally.counts["gateways killed while stopped"] += 1
        scene.tally.counts["requests cut by a kill"] += scene.gate.inside
        scene.tally.expect(running.end(signal.SIGKILL) == -signal.SIGKILL, "a gateway was gone before its kill")
        scene.tally.counts[KILLED] += 1

    async def _crowd(self) -> None:
        """More clients than there are files, all of whom stay for a while."""
        scene, most = self.scene, 0
        opening = [asyncio.open_connection("127.0.0.1", scene.port) for _ in range(CROWD)]
        there = [one for one in await asyncio.gather(*opening, return_exceptions=True) if isinstance(one, tuple)]
        scene.tally.counts["clients of a gateway without files"] += len(there)
        for _ in range(LOOKS):
            await asyncio.sleep(3.0 / LOOKS)
            most = max(most, sum(1 for _ in open_files(scene.pid)))
        scene.tally.counts["files open at most where 256 may be"] = most
        scene.tally.expect(most >= FEW_FILES - 2, f"of {FEW_FILES} files {most} were open: the crowd did nothing")
        scene.tally.expect(scene.gateway.process.poll() is None, "without files the gateway died")
        for _, writer in there:
            writer.close()

    async def _rest(self) -> Weight:
        """Nobody talks: the seats and the connections go, and then it is weighed."""
        scene = self.scene
        await scene.until(lambda: not scene.connections(), "every connection is gone", REST)
        await asyncio.sleep(6.0)
        return scene.weigh()

    async def _back_to(self, base: Weight) -> Weight:
        """At rest, and given time for what comes by a clock: the heap returns what a crowd left free now and then, and
        a seat goes when it was idle. What leaks stays."""
        now, give_up = await self._rest(), time.monotonic() + EVERY + 10.0
        while too_heavy(now, base) and time.monotonic() < give_up:
            await asyncio.sleep(1.0)
            now = self.scene.weigh()
        return now

    def _compare(self, base: Weight, now: Weight, after: str) -> None:
        scene = self.scene
        grown = (now.memory - base.memory) >> 20
        more = dict(now.listed - base.listed)
        scene.tally.expect(
            now.files <= base.files, f"after {after}: {now.files} files are open, {base.files} were: {more}"
        )
        scene.tally.expect(now.memory - base.memory <= MEMORY_SLACK, f"after {after}: {grown} MB more than before")
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
                answer = await one.recall(http)
                if not completed(answer):
                    scene.tally.broken.append(f"{one.name}: was not told what its agent knows: {answer.text[:500]}")
                    continue
                known = canary.turns(answer.text, canary.QUESTION)
                scene.tally.counts["agents asked for all they know"] += 1
                if forgotten := one.answered - set(known):
                    scene.tally.broken.append(f"{one.name}: its agent knows {known}, and not {sorted(forgotten)}")

    # --- ends ---

    def _count_errors(self, running: Command) -> None:
        """What the gateway logged as its own failures. One that it has no word for is one that nobody thought of."""
        tally = self.scene.tally
        for line in running.logged:
            if line.get("level") == "error":
                tally.counts["failures of the gateway's own in its log"] += 1
                if traced := str(line.get("exception") or "").strip():
                    tally.broken.append(f"the gateway had no word for {traced.splitlines()[-1][:120]}")

    async def _end_well(self, running: Command) -> None:
        code = await asyncio.to_thread(running.end)
        self.scene.tally.expect(code == 0, f"the gateway ended with {code}")
        await self._nobody_left()

    async def _nobody_left(self) -> None:
        scene = self.scene
        scene.tally.counts["looks for orphans"] += 1
        if not await scene.until(lambda: not scene.strays(), "no process of a dead gateway is left", 15.0):
            scene.tally.counts[ORPHANS] += len(scene.strays())
            scene.tally.broken += scene.strays()

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
        scene.tally.counts.update(verdict.looked_at)
        scene.tally.broken += verdict.findings
        scene.tally.counts.update({kind: len(lines) for kind, lines in verdict.by_kind().items()})
        for one in conversations:
            scene.tally.counts[SENT] += one.sent
            scene.tally.counts.update({f"turns, {what}": many for what, many in one.told.items()})
            scene.tally.broken += one.wrong
            scene.tally.counts["leaked"] += sum("was told words of" in line for line in one.wrong)


def answers(conversations: list[Conversation]) -> int:
    """That were told in full."""
    return sum(len(one.answered) for one in conversations)


def too_heavy(now: Weight, base: Weight) -> bool:
    """More than a gateway may have kept."""
    return now.files > base.files or now.memory - base.memory > MEMORY_SLACK
