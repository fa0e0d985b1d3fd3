"""Conversations that are talked in, taken back, branched, summed up, left and resumed at random, beside a model.

The model knows what the person said in each session, and nothing of how that is done. Every message asks the agent what
it knows, so each step shows the whole context.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.support.chats import Chat, texts
from tests.support.served import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")
STEPS = 40


@dataclass
class Known:
    """A session as its person knows it."""

    users: list[str]
    summed: bool = False
    child: str | None = None
    """What it was compressed into."""


@dataclass
class Walk:
    """One conversation and its model."""

    chat: Chat
    random: Random
    sessions: dict[str, Known] = field(default_factory=dict)
    here: str = ""
    said: int = 0

    @property
    def known(self) -> Known:
        """The present session."""
        return self.sessions[self.here]

    async def begin(self) -> None:
        """The first session."""
        self.arrive((await self.chat.said("/new"))["session_id"], Known([]))

    def arrive(self, session: str, known: Known) -> None:
        """Be in a session that is new."""
        assert session not in self.sessions
        self.sessions[session] = known
        self.here = session

    async def say(self) -> None:
        self.said += 1
        text = f"{self.chat.key} {self.said}\n!recall"
        answer = await self.chat.said(text)
        context = "\n".join(self.known.users)
        assert answer["session_id"] == self.here
        assert answer["text"] == f"echo: {self.chat.key} {self.said}\n{context}"
        self.known.users.append(text)

    async def undo(self) -> None:
        many = self.random.choice([1, 1, 2, 99])
        answer = await self.chat.text(f"/undo {many}")
        assert ("nothing" in answer) == (not self.known.users)
        del self.known.users[-many:]

    async def retry(self) -> None:
        answer = await self.chat.text("/retry")
        if self.known.users:
            *before, last = self.known.users
            assert answer == f"echo: {last.partition(chr(10))[0]}\n" + "\n".join(before)
        else:
            assert "no question" in answer

    async def branch(self) -> None:
        answer = await self.chat.said("/branch")
        if self.known.users or self.known.summed:
            self.arrive(answer["session_id"], Known([*self.known.users], self.known.summed))
        else:
            assert "no history" in answer["text"]

    async def compress(self) -> None:
        answer = await self.chat.said("/compress")
        many = len(self.known.users)
        if self.known.summed + 2 * many < 4:
            assert "too little" in answer["text"]
            return
        kept = 2 if self.known.summed + 2 * (many - 2) >= 2 else 1
        self.known.child = answer["session_id"]
        self.arrive(answer["session_id"], Known(self.known.users[-kept:], summed=True))

    async def leave(self) -> None:
        self.arrive((await self.chat.said("/new"))["session_id"], Known([]))

    async def resume(self) -> None:
        target = self.random.choice(list(self.sessions))
        answer = await self.chat.said(f"/resume {target}")
        while (child := self.sessions[target].child) is not None:
            target = child
        assert answer["session_id"] == target
        self.here = target

    async def step(self) -> None:
        """Anything, most often a message."""
        others: list[Callable[[], Awaitable[None]]] = [
            self.undo, self.retry, self.branch, self.compress, self.leave, self.resume, self.resume,
        ]  # fmt: skip
        await self.random.choice([self.say] * 7 + others)()
        assert self.chat.routed() == self.here


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a12_d07_rd2_z4_whatever_is_done_the_agent_knows_what_the_person_knows(served: Served, seed: int) -> None:
    walks = [Walk(Chat(served, f"walk {seed} {number}"), Random(seed * 100 + number)) for number in range(3)]

    async def go(walk: Walk) -> None:
        await walk.begin()
        for _ in range(STEPS):
            await walk.step()

    async with asyncio.TaskGroup() as group:
        for walk in walks:
            group.create_task(go(walk))
    for walk in walks:
        for session, known in walk.sessions.items():
            if known.child is None:
                assert [text for role, text in texts(served, session) if role == "user"] == known.users
