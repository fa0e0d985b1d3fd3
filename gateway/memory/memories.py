"""All providers of memory together: the witness that sessions tell what happens.

Rules:
- News goes to one worker, first in, first out, and from there to every provider in the order of their registration,
  as long as each keeps up. One that falls behind is served from its own queue and holds up nobody.
- Nothing that is told waits for a provider. Only `recall` does, for all of them at once, and no longer than the limit.
- A session without an id is nobody's: nobody is told. After the end nobody is told anything.
- The end waits for what is queued, no longer than the limit, and then says what is lost.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from ostler.bridge.tool import Tool
from ostler.gateway.config.settings import MemorySettings
from ostler.gateway.memory.provider import MemoryProvider, Spoken
from ostler.gateway.memory.provider_worker import ERROR_LIMIT, ProviderCall, ProviderWork, ProviderWorker
from ostler.gateway.memory.users import Users
from ostler.gateway.memory.watch import MemoryWatch, NoMemoryWatch
from ostler.gateway.model.observers import SwitchReason
from ostler.gateway.model.records import MessageRecord
from ostler.gateway.model.session_context import SessionContext
from ostler.metrics.loops import Loops
from ostler.wire.json import without_surrogates
from ostler.wire.recalled import build_recalled
from ostler.wire.redaction import excerpt

log = logging.getLogger("ostler.memory")

News: TypeAlias = list[tuple[ProviderWorker, ProviderCall]]


class Memories:
    """Made by `app.py`, which runs `work` as a task and calls `close` in the end."""

    def __init__(
        self,
        providers: Mapping[str, MemoryProvider],
        users: Users,
        settings: MemorySettings,
        watch: MemoryWatch | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        loops: Loops | None = None,
    ) -> None:
        watch = NoMemoryWatch() if watch is None else watch
        self._loops = Loops() if loops is None else loops
        self._lanes = [
            ProviderWorker(name, provider, watch, clock, self._loops) for name, provider in providers.items()
        ]
        self._clock = clock
        self._users = users
        self._settings = settings
        self._inbox: asyncio.Queue[News | None] = asyncio.Queue()
        self._closed = False

    @property
    def names(self) -> list[str]:
        """The providers that work, in their order."""
        return [lane.name for lane in self._lanes if lane.usable]

    def undone(self) -> dict[str, int]:
        """How many calls each provider still has to take."""
        return {lane.name: lane.undone for lane in self._lanes}

    # --- what the sessions tell ---

    async def recall(self, session_id: str, question: str) -> str:
        """What should be said to the agent before this question, marked as recalled; "" for nothing."""
        if self._is_mute(session_id):
            return ""
        question = sound(question)
        self._tell(session_id, on_turn_start=partial(_start, question, session_id))
        user = await self._users.of(session_id)
        deadline = asyncio.get_running_loop().time() + self._settings.prefetch
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(lane.prefetch(question, session_id, user, deadline)) for lane in self._lanes]
        offers = [(lane.name, task.result()) for lane, task in zip(self._lanes, asked, strict=True)]
        return build_recalled(offers, self._settings.recall_chars)

    def turn_ended(self, session_id: str, question: str, answer: str) -> None:
        """A turn that was answered."""
        question, answer = sound(question), sound(answer)
        self._tell(
            session_id,
            sync_turn=partial(_sync, question, answer, session_id),
            queue_prefetch=partial(_queue, question, session_id),
        )

    def session_ended(self, session_id: str, transcript: Sequence[MessageRecord]) -> None:
        """A session ended for good."""
        spoken = [Spoken(message.role, sound(message.text)) for message in transcript]
        self._tell(session_id, on_session_end=partial(_end, spoken, session_id))

    def session_switched(self, session_id: str, *, parent_id: str, reason: SwitchReason) -> None:
        """A conversation writes to this session now."""
        self._tell(session_id, on_session_switch=partial(_switch, session_id, parent_id, reason))

    def session_rewound(self, session_id: str) -> None:
        """Turns were taken back."""
        self._tell(session_id, on_session_switch=partial(_rewind, session_id))

    def session_erased(self, session_id: str) -> None:
        """Nothing of it is to be remembered."""
        self._tell(session_id, on_session_erased=partial(_erase, session_id))

    # --- what sessions get ---

    async def source(self, context: SessionContext) -> list[Tool]:
        """For the workshop."""
        return await self.tools(context.facts.session_id)

    async def tools(self, session_id: str) -> list[Tool]:
        """Those of all providers, bound to this session. Of two with one name the first provider's is taken."""
        if self._is_mute(session_id):
            return []
        user = await self._users.of(session_id)
        found: dict[str, Tool] = {}
        for lane in self._lanes:
            for tool in self._tools_of(lane, session_id, user):
                if tool.name in found:
                    log.warning("memory %s: its tool %s is left out, the name is taken", lane.name, tool.name)
                else:
                    found[tool.name] = tool
        return list(found.values())

    def _tools_of(self, lane: ProviderWorker, session_id: str, user: str) -> Sequence[Tool]:
        if not lane.usable:
            return ()
        try:
            return lane.provider.tools(session_id=session_id, user=user)
        except Exception as error:  # noqa: BLE001 - a provider may raise anything; the session gets the other tools
            told = excerpt(f"{type(error).__name__}: {error}", ERROR_LIMIT)
            log.warning("memory %s: tools for session %s failed: %s", lane.name, session_id, told)
            return ()

    # --- the worker ---

    async def work(self) -> None:
        """Hand the news over, one after another, until the end."""
        loop = self._loops.add("the messenger of memory", patience=math.inf)
        with loop.running():
            while (news := await self._inbox.get()) is not None:
                for lane, errand in news:
                    with loop.round():
                        errand.user = await self._users.of(errand.session_id)
                        await lane.deliver(errand)

    async def close(self, worker: "asyncio.Task[None]") -> None:
        """Tell what is left to tell and let the providers close, within the limit. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._inbox.put_nowait(None)
        try:
            async with asyncio.timeout(self._settings.drain):
                await asyncio.wait([worker])
                await asyncio.gather(*(lane.close() for lane in self._lanes))
        except TimeoutError:
            late = ", ".join(f"{lane.name} ({lane.undone} calls)" for lane in self._lanes if lane.undone)
            log.warning("memory is left after %g s with work undone: %s", self._settings.drain, late or "not told yet")
        for lane in self._lanes:
            lane.abandon()

    def _is_mute(self, session_id: str) -> bool:
        return self._closed or not session_id or not self._lanes

    def _tell(self, session_id: str, **steps: ProviderWork) -> None:
        if self._is_mute(session_id):
            return
        now = self._clock()
        news = [
            (lane, ProviderCall(what, session_id, work, now)) for what, work in steps.items() for lane in self._lanes
        ]
        for lane, errand in news:
            if errand.what == "on_session_switch":
                lane.expect(errand)
        self._inbox.put_nowait(news)


def sound(text: str) -> str:
    """A text that any provider can write down and send."""
    return str(without_surrogates(text))


def _start(question: str, session_id: str, provider: MemoryProvider, user: str) -> None:
    provider.on_turn_start(question, session_id=session_id, user=user)


def _sync(question: str, answer: str, session_id: str, provider: MemoryProvider, user: str) -> None:
    provider.sync_turn(question, answer, session_id=session_id, user=user)


def _queue(question: str, session_id: str, provider: MemoryProvider, user: str) -> None:
    provider.queue_prefetch(question, session_id=session_id, user=user)


def _end(spoken: Sequence[Spoken], session_id: str, provider: MemoryProvider, user: str) -> None:
    provider.on_session_end(spoken, session_id=session_id, user=user)


def _erase(session_id: str, provider: MemoryProvider, user: str) -> None:
    provider.on_session_erased(session_id, user=user)


def _switch(session_id: str, parent_id: str, reason: SwitchReason, provider: MemoryProvider, user: str) -> None:
    reset = reason is SwitchReason.NEW
    provider.on_session_switch(session_id, parent_session_id=parent_id, reset=reset, reason=reason.value, user=user)


def _rewind(session_id: str, provider: MemoryProvider, user: str) -> None:
    provider.on_session_switch(session_id, rewound=True, user=user)
