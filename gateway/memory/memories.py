"""All memory providers together, as the observer that sessions report to.

Rules:
- Reports go to one worker task, first in, first out, and from there to every provider in the order of registration, as
  long as each keeps up. A provider that falls behind is served from its own queue and delays no other.
- Reporting never waits for a provider. Only `recall` waits, for all providers at once, and at most for the limit.
- Reports without a session id are dropped, and so are reports after `close`.
- `close` waits for queued reports, at most for the limit, and then logs what is lost.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
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
    """The providers of one gateway. `app.py` creates it, runs `work` as a task, and calls `close`."""

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
        self._workers = [
            ProviderWorker(name, provider, watch, clock, self._loops) for name, provider in providers.items()
        ]
        self._clock = clock
        self._users = users
        self._settings = settings
        self._inbox: asyncio.Queue[News | None] = asyncio.Queue()
        self._closed = False

    @property
    def names(self) -> list[str]:
        """The names of the usable providers, in their order."""
        return [worker.name for worker in self._workers if worker.usable]

    def undone(self) -> dict[str, int]:
        """How many calls each provider has still to process."""
        return {worker.name: worker.undone for worker in self._workers}

    # --- reports of sessions ---

    async def recall(self, session_id: str, question: str) -> str:
        """What the providers offer for this question, marked as recalled, to be put before it; "" for nothing."""
        if self._is_mute(session_id):
            return ""
        question = sound(question)
        self._tell(
            session_id,
            on_turn_start=lambda provider, user: provider.on_turn_start(question, session_id=session_id, user=user),
        )
        user = await self._users.of(session_id)
        deadline = asyncio.get_running_loop().time() + self._settings.prefetch
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(worker.prefetch(question, session_id, user, deadline)) for worker in self._workers
            ]
        offers = [(worker.name, task.result()) for worker, task in zip(self._workers, asked, strict=True)]
        return build_recalled(offers, self._settings.recall_chars)

    def turn_ended(self, session_id: str, question: str, answer: str) -> None:
        """Report a turn that was answered."""
        question, answer = sound(question), sound(answer)
        self._tell(
            session_id,
            sync_turn=lambda provider, user: provider.sync_turn(question, answer, session_id=session_id, user=user),
            queue_prefetch=lambda provider, user: provider.queue_prefetch(question, session_id=session_id, user=user),
        )

    def session_ended(self, session_id: str, transcript: Sequence[MessageRecord]) -> None:
        """Report that a session has ended for good."""
        spoken = [Spoken(message.role, sound(message.text)) for message in transcript]
        self._tell(
            session_id,
            on_session_end=lambda provider, user: provider.on_session_end(spoken, session_id=session_id, user=user),
        )

    def session_switched(self, session_id: str, *, parent_id: str, reason: SwitchReason) -> None:
        """Report that a conversation now writes to this session."""
        reset = reason is SwitchReason.NEW
        self._tell(
            session_id,
            on_session_switch=lambda provider, user: provider.on_session_switch(
                session_id, parent_session_id=parent_id, reset=reset, reason=reason.value, user=user
            ),
        )

    def session_rewound(self, session_id: str) -> None:
        """Report that turns of the session were undone."""
        self._tell(
            session_id,
            on_session_switch=lambda provider, user: provider.on_session_switch(session_id, rewound=True, user=user),
        )

    def session_erased(self, session_id: str) -> None:
        """Report that nothing of the session may be remembered."""
        self._tell(
            session_id, on_session_erased=lambda provider, user: provider.on_session_erased(session_id, user=user)
        )

    def session_expired(self, session_id: str) -> None:
        """Report that the text of the session was deleted because nothing had led to it for long."""
        self._tell(
            session_id, on_session_expired=lambda provider, user: provider.on_session_expired(session_id, user=user)
        )

    # --- tools for sessions ---

    async def source(self, context: SessionContext) -> list[Tool]:
        """The source of memory tools for `ToolsetFactory`."""
        return await self.tools(context.facts.session_id)

    async def tools(self, session_id: str) -> list[Tool]:
        """The tools of all providers, bound to this session. If two have the same name, the first provider's is
        used."""
        if self._is_mute(session_id):
            return []
        user = await self._users.of(session_id)
        found: dict[str, Tool] = {}
        for worker in self._workers:
            for tool in self._tools_of(worker, session_id, user):
                if tool.name in found:
                    log.warning("memory %s: its tool %s is left out, the name is taken", worker.name, tool.name)
                else:
                    found[tool.name] = tool
        return list(found.values())

    def _tools_of(self, worker: ProviderWorker, session_id: str, user: str) -> Sequence[Tool]:
        if not worker.usable:
            return ()
        try:
            return worker.provider.tools(session_id=session_id, user=user)
        except Exception as error:  # noqa: BLE001 - a provider may raise anything; the session gets the other tools
            why = excerpt(f"{type(error).__name__}: {error}", ERROR_LIMIT)
            log.warning("memory %s: tools for session %s failed: %s", worker.name, session_id, why)
            return ()

    # --- the worker task ---

    async def work(self) -> None:
        """Deliver the reports one after another, until `close`."""
        loop = self._loops.add("the messenger of memory", patience=math.inf)
        with loop.running():
            while (news := await self._inbox.get()) is not None:
                for worker, call in news:
                    with loop.round():
                        call.user = await self._users.of(call.session_id)
                        await worker.deliver(call)

    async def close(self, delivery: "asyncio.Task[None]") -> None:
        """Deliver the remaining reports and close the providers, within the limit. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._inbox.put_nowait(None)
        try:
            async with asyncio.timeout(self._settings.drain):
                await asyncio.wait([delivery])
                await asyncio.gather(*(worker.close() for worker in self._workers))
        except TimeoutError:
            late = ", ".join(f"{worker.name} ({worker.undone} calls)" for worker in self._workers if worker.undone)
            log.warning("memory is left after %g s with work undone: %s", self._settings.drain, late or "not told yet")
        for worker in self._workers:
            worker.abandon()

    def _is_mute(self, session_id: str) -> bool:
        return self._closed or not session_id or not self._workers

    def _tell(self, session_id: str, **steps: ProviderWork) -> None:
        if self._is_mute(session_id):
            return
        now = self._clock()
        news = [
            (worker, ProviderCall(what, session_id, work, now))
            for what, work in steps.items()
            for worker in self._workers
        ]
        for worker, call in news:
            if call.what == "on_session_switch":
                worker.expect(call)
        self._inbox.put_nowait(news)


def sound(text: str) -> str:
    """The text without lone surrogates, so that any provider can encode it."""
    return str(without_surrogates(text))
