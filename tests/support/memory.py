"""PROV, a provider of memory that records every call and does what it is told; and stand-ins for its surroundings."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ostler.bridge.calls import ToolCall
from ostler.bridge.tool import Tool, ToolContext, tool
from ostler.gateway.config.settings import MemorySettings
from ostler.gateway.memory.memories import Memories
from ostler.gateway.memory.provider import MakeProvider, MemoryHome, MemoryProvider, Spoken
from ostler.gateway.memory.users import Users
from ostler.gateway.memory.watch import MemoryWatch
from ostler.gateway.model.records import MessageRecord, NewSession
from ostler.gateway.model.session_context import SessionContext
from ostler.gateway.model.store import Store
from ostler.pool.tasks import TaskOwner
from ostler.wire.json import JsonObject
from tests.support.stores import Clock, open_sqlite

Step = Callable[[], object]


@dataclass(frozen=True)
class Call:
    """One call of a provider."""

    what: str
    session: str
    user: str
    facts: Mapping[str, Any]
    by: str = "prov"


@dataclass
class Prov(MemoryProvider):
    """`acts` says what a call does besides being recorded: wait for an event, or raise."""

    name: str = "prov"
    recalled: str = ""
    acts: dict[str, Step] = field(default_factory=dict)
    journal: list[Call] = field(default_factory=list)
    """May be shared by several, to see who comes first."""
    begun: dict[str, threading.Event] = field(default_factory=dict)

    def calls(self, *what: str) -> list[Call]:
        return [call for call in self.journal if call.by == self.name and (not what or call.what in what)]

    def wait_in(self, what: str) -> threading.Event:
        """Calls of this kind wait until the event is set."""
        gate = threading.Event()
        self.watch(what)
        self.acts[what] = lambda: self._wait(gate)
        return gate

    def watch(self, what: str) -> None:
        """So that `until_in` can be asked for it."""
        self.begun[what] = threading.Event()

    def fail_in(self, *whats: str) -> None:
        for what in whats:
            self.acts[what] = fail

    async def until_in(self, what: str) -> None:
        # The thread has a limit of its own: one that waits for ever keeps a loop from closing, and so a failed test
        # from ending.
        assert await asyncio.to_thread(self.begun[what].wait, 20), f"not within 20 s: {what} begins"

    def _wait(self, gate: threading.Event) -> None:
        assert gate.wait(300)

    def _note(self, what: str, session: str = "", user: str = "", **facts: Any) -> None:
        self.journal.append(Call(what, session, user, facts, self.name))
        if what in self.begun:
            self.begun[what].set()
        if what in self.acts:
            self.acts[what]()

    def initialize(self) -> None:
        self._note("initialize")

    def close(self) -> None:
        self._note("close")

    def prefetch(self, question: str, *, session_id: str, user: str) -> str:
        self._note("prefetch", session_id, user, question=question)
        return self.recalled

    def queue_prefetch(self, question: str, *, session_id: str, user: str) -> None:
        self._note("queue_prefetch", session_id, user, question=question)

    def sync_turn(self, question: str, answer: str, *, session_id: str, user: str) -> None:
        self._note("sync_turn", session_id, user, question=question, answer=answer)

    def on_turn_start(self, question: str, *, session_id: str, user: str) -> None:
        self._note("on_turn_start", session_id, user, question=question)

    def on_session_end(self, transcript: Sequence[Spoken], *, session_id: str, user: str) -> None:
        self._note("on_session_end", session_id, user, transcript=list(transcript))

    def on_session_switch(self, new_session_id: str, *, user: str = "", **facts: Any) -> None:  # type: ignore[override] # it is to see what is given and what is not
        self._note("on_session_switch", new_session_id, user, **facts)

    def on_session_erased(self, session_id: str, *, user: str) -> None:
        self._note("on_session_erased", session_id, user)

    def on_session_expired(self, session_id: str, *, user: str) -> None:
        self._note("on_session_expired", session_id, user)

    def tools(self, *, session_id: str, user: str) -> Sequence[Tool]:
        self._note("tools", session_id, user)

        @tool(name=f"{self.name}_touch")
        def touch(number: int, context: ToolContext) -> str:
            """Touch the store of this session."""
            called = context.session
            assert isinstance(called, SessionContext)
            self._note("touch", session_id, user, number=number, called=called.facts.session_id)
            return f"{session_id} {number}"

        return (touch,)


def fail() -> None:
    raise RuntimeError("the provider is broken, password=hunter2hunter2")


def making(provider: MemoryProvider) -> MakeProvider:
    """A maker of this very one."""
    return lambda _home: provider


def call_of(name: str, arguments: JsonObject, context: object = None) -> ToolCall:
    """A call that nobody listens to."""
    return ToolCall(name, arguments, "call-1", context, lambda *_: None, lambda *_: None)


def home_in(folder: Path, **settings: Any) -> MemoryHome:
    numbers = iter(range(1_000_000))
    return MemoryHome(folder, MemorySettings(**settings), Clock(), lambda prefix: f"{prefix}_{next(numbers)}")


def message(number: int, role: str, text: str, session: str = "p") -> MessageRecord:
    return MessageRecord(number, session, role, (), text, None, 0.0, active=True, compacted=False)


@dataclass
class Remembering:
    """Memories at work over a store."""

    memories: Memories
    store: Store
    worker: "asyncio.Task[None]"
    crew: TaskOwner

    async def add(self, *sessions: str, owner: str | None = "anna", chat: str | None = None) -> None:
        for session in sessions:
            await self.store.create_session(NewSession(session, owner=owner, chat=chat))

    async def close(self) -> None:
        """What is queued is done now."""
        await self.memories.close(self.worker)


@asynccontextmanager
async def remembering(
    folder: Path, *providers: MemoryProvider, watch: MemoryWatch | None = None, **settings: Any
) -> AsyncIterator[Remembering]:
    """Providers with a worker and a store, without a gateway."""
    store = await open_sqlite(folder, Clock())
    named = {each.name if isinstance(each, Prov) else f"memory{place}": each for place, each in enumerate(providers)}
    memories = Memories(named, Users(store), MemorySettings(**settings), watch)
    crew = TaskOwner(asyncio.get_running_loop(), raise_death)
    running = Remembering(memories, store, crew.start(memories.work(), "memory"), crew)
    await running.add("p", "q", "t")
    try:
        yield running
    finally:
        await running.close()
        await crew.disband()
        await store.aclose()


def raise_death(name: str, error: BaseException) -> None:
    raise AssertionError(f"{name} died") from error
