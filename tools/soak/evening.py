"""An evening: 200 sessions on one gateway process, agents that are replaced all the time, a look every few seconds."""

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.tally import Tally
from tests.support.toml import written
from tools.faults.clock import WallClock
from tools.faults.conversation import Conversation
from tools.faults.gate import Gate
from tools.faults.judge import judge
from tools.faults.scene import API_KEY, Scene
from tools.soak.crew import Hand, document, models
from tools.soak.growth import Point, beyond, is_flat, percentile, settled, slope, windows

SESSIONS = 200
DEFAULT = "demo/one"
PAUSE = 8.0
"""Seconds between two turns of a session, on average: some twenty turns a second in all."""
TURNS = 30
"""Of one conversation: some five minutes, so that after the warm-up they are of all lengths at any time."""
MAX_AGE = 150.0
"""Every seat of a process that goes is opened anew, with a relay of its own: more often than this, and on two cores the
evening is about nothing else."""
LOOK_EVERY, OPERATE_EVERY = 2.0, 20.0
STORMS = (0.10, 0.125, 0.15)
"""Parts of the evening at which all processes are replaced at once. It is the most that replacing can cost: a gateway
keeps what it once took, so a chance meeting of replacements later in the evening would look like a leak. All are in the
first window, of whose latency nothing is judged."""
WARM_UP = 0.3
"""The part of the evening before memory is compared: what is loaded, cached and pooled once is no leak."""
MB_PER_HOUR = 1.0
STRETCHES, WINDOWS = 10, 7
GROWTH = 2.0
LEAST = 900.0
"""Seconds below which a slope says more about the allocator than about us; it is told, not judged."""
RECYCLES, COMPLETED = "recycles", "turns completed"
SETTINGS = {
    "gateway": {
        "default_model": DEFAULT,
        "seats_max": 400,
        "turn_inactivity": 60.0,
        # What is remembered up to a bound is to be full before the warm-up ends.
        "sessions_max": 300,
        "responses_max": 5000,
        "replay_bytes": 1_000_000,
    },
    "pool": {"max_processes": 12, "max_processes_per_key": 3, "max_age": MAX_AGE, "idle_after": 30.0},
    "auth": {"api_key": API_KEY, "concurrency": 4000, "per_minute": 1_000_000},
    "tools": {"own": ["*"]},
}


@dataclass
class Evening:
    """One run."""

    scene: Scene
    crew: list[Hand]
    conversations: list[Conversation] = field(default_factory=list)
    rss: list[Point] = field(default_factory=list)
    own: list[Point] = field(default_factory=list)
    """What it took for itself. Of the rest, programs and libraries, more or less is there as others run them."""

    async def pass_by(self, seconds: float) -> None:
        """Open, talk, look, end, judge."""
        scene = self.scene
        config = scene.folder / "soak.toml"
        config.write_text(written(document(self.crew, SETTINGS)))
        # Chats, whose numbers are even, have the default model: other agents are met on /v1/responses.
        chats, others = itertools.count(0, 2), itertools.count(1, 2)
        talking: list[asyncio.Task[None]] = []
        with scene.serving("--config", str(config)) as running:
            async with asyncio.TaskGroup() as group:
                for place, model in enumerate(models(self.crew, SESSIONS)):
                    numbers = chats if model == DEFAULT and place % 2 == 0 else others
                    talking.append(group.create_task(self._one_after_the_other(numbers, model)))
                async with scene.gate.opened(scene.base) as http:
                    await self._watch(http, seconds)
                scene.gate.end()
                await asyncio.wait(talking)
            code = await asyncio.to_thread(running.end, seconds=60)
            scene.tally.expect(code == 0, f"the gateway ended with {code}")
            errors = [line for line in running.logged if line.get("level") == "error"]
            scene.tally.expect(not errors, f"{len(errors)} errors in its log: {errors[:2]}")
        await scene.until(lambda: not scene.strays(), "no process of the gateway is left", 20.0)
        scene.tally.broken += scene.strays()
        self._judge(seconds)

    async def _one_after_the_other(self, numbers: Iterator[int], model: str) -> None:
        """A conversation, then another one in its place: one that lasts all evening has more to tell each new agent
        than it had the last one, and what that costs would look like a leak."""
        scene, turns = self.scene, self.scene.chance.uniform(1, TURNS)
        while not scene.gate.ended:
            one = Conversation(next(numbers), model)
            self.conversations.append(one)
            await one.live(scene.gate, scene.chance, PAUSE, turns)
            turns = TURNS

    async def _watch(self, http: httpx.AsyncClient, seconds: float) -> None:
        scene, began = self.scene, time.monotonic()
        looked = operated = began
        storms = [began + part * seconds for part in STORMS]
        while (now := time.monotonic()) < began + seconds:
            whole, own = resident(scene.pid)
            self.rss.append((now - began, whole))
            self.own.append((now - began, own))
            if now - looked > OPERATE_EVERY:
                looked = now
                print(self._line(now - began), flush=True)
            if storms and now > storms[0]:
                storms.pop(0)
                await self._recycle(await self._ready())
            if now - operated > OPERATE_EVERY * 3:
                operated = now
                await self._recycle(self.scene.chance.sample(ready, 1) if (ready := await self._ready()) else [])
            await asyncio.sleep(LOOK_EVERY)
        text = (await http.get("/metrics")).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "ostler_pool_recycles_total":
                    self.scene.tally.counts[RECYCLES] += int(sample.value)
                    cause = f"recycled, {sample.labels['provider']}, {sample.labels['cause']}"
                    self.scene.tally.counts[cause] += int(sample.value)

    async def _ready(self) -> list[int]:
        return [each["process"] for each in await self.scene.processes() if each["state"] == "ready"]

    async def _recycle(self, processes: list[int]) -> None:
        """What an operator does now and then, over the gateway's own socket."""
        async with self.scene.operator() as http:
            for process in processes:
                answer = await http.post("/admin/pool/recycle", json={"process": process})
                self.scene.tally.counts[f"operator's recycles, {answer.status_code}"] += 1

    def _line(self, at: float) -> str:
        done = sum(len(one.answered) for one in self.conversations)
        agents = len(self.scene.agents())
        memory = f"rss {self.rss[-1][1]:.1f} MB, its own {self.own[-1][1]:.1f} MB"
        return f"  {at:>5.0f} s  {done:>6} turns  {memory}  {agents} agents"

    def _judge(self, seconds: float) -> None:
        scene, verdict = self.scene, judge(self.conversations, self.scene.folder / "data")
        scene.tally.counts.update(verdict.looked_at)
        scene.tally.broken += verdict.findings
        told: Counter[str] = Counter()
        for one in self.conversations:
            told.update({f"turns of {one.model.partition('/')[0]}, {what}": many for what, many in one.told.items()})
            scene.tally.broken += one.wrong
        scene.tally.counts.update(told)
        bad = {what: many for what, many in told.items() if not what.endswith((", completed", ", asked again"))}
        uncalled = next((one.uncalled for one in self.conversations if one.uncalled), "")
        scene.tally.expect(not bad, f"turns that went wrong in an evening without faults: {bad} {uncalled}")
        scene.tally.counts[COMPLETED] = sum(many for what, many in told.items() if what.endswith(", completed"))
        scene.tally.expect_some((RECYCLES, COMPLETED))
        self._judge_growth(seconds)

    def _judge_growth(self, seconds: float) -> None:
        scene = self.scene
        for name, points in (("rss", self.rss), ("its own", self.own)):
            late = [point for point in points if point[0] >= WARM_UP * seconds]
            rate, floor = slope(late), slope(settled(late, STRETCHES))
            scene.tally.counts[f"{name}, MB at the end"] = round(points[-1][1])
            print(f"  {name}: {rate:+.2f} MB/h by all looks, {floor:+.2f} MB/h by the lowest of each stretch")
            if seconds >= LEAST:
                scene.tally.expect(floor <= MB_PER_HOUR, f"{name} grows by {floor:.2f} MB/h")
            else:
                scene.tally.left_out["growth"] = f"{seconds:g} s are too few to judge a slope; {LEAST:g} are enough"
        self._judge_latency()

    def _judge_latency(self) -> None:
        """Of each kind of agent the 99th percentile, of all turns what lies beyond it, and of both the mean.

        Not the percentile of all turns: about one in a hundred waits for a replacement, so whether the percentile of a
        window is that of such a turn or of all the others is a matter of a few more or less. If more have to wait, the
        mean rises.
        """
        kinds: dict[str, list[Point]] = {"all": []}
        for one in self.conversations:
            for kind in ("all", one.model.partition("/")[0]):
                kinds.setdefault(kind, []).extend(one.seconds)
        for kind, points in kinds.items():
            spans = windows(sorted(points), WINDOWS)
            name, slowest = ("slowest hundredth", beyond) if kind == "all" else ("99th percentile", percentile)
            self._judge_levels(f"the mean of {kind}", [fmean(span) if span else 0.0 for span in spans])
            self._judge_levels(f"the {name} of {kind}", [slowest(span, 0.99) for span in spans])

    def _judge_levels(self, what: str, levels: list[float]) -> None:
        """Of the windows; the first one is that of the storms."""
        told = "  ".join(f"{level * 1000:.0f}" for level in levels)
        print(f"  {what}, ms per window: {told}")
        self.scene.tally.expect(is_flat(levels[1:], GROWTH), f"{what} rises: {told} ms")


def resident(pid: int) -> tuple[float, float]:
    """MB of a process in memory: all of it, and its own, which is no file's."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    kb = {line[0]: int(line[1]) for line in lines if line and line[0] in ("VmRSS:", "RssAnon:")}
    return kb["VmRSS:"] / 1024, kb["RssAnon:"] / 1024


def evening_in(folder: Path, tally: Tally, crew: list[Hand]) -> Evening:
    """One that has not begun."""
    gate, chance = Gate({"authorization": f"Bearer {API_KEY}"}), random.Random(tally.seed)
    scene = Scene(folder, tally, chance, WallClock(folder), gate, inside=False, full_disk=False, settings={})
    return Evening(scene, crew)
