"""Blocking file system calls that may never return, each on a thread of its own and with a timeout.

Rules:
- A call on a dead network mount never returns. So each probe runs on a daemon thread of its own, because nothing can
  end it and the exit of the process must not wait for it.
- At most `LOOKS` probes run at once. A caller that finds all of them running waits for one to return, within its
  patience: many callers may ask a healthy disk at once.
- At most `LOOKS_AT_A_PLACE` probes run for one place, where the caller names it: a dead disk that is probed under many
  names must not take the threads that healthy ones need.
- One probe per name at a time; callers that ask meanwhile wait for the same one.
"""

import asyncio
import threading
from collections.abc import Callable, Hashable
from contextvars import Context
from typing import Any, Final, Generic, TypeVar

LOOKS: Final = 16
LOOKS_AT_A_PLACE: Final = 4
PATIENCE: Final = 10.0

Found = TypeVar("Found")


class ProbeFailed(Exception):
    """The probe could not be started, or was not answered in time. `why` says which."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class BlockingProbe(Generic[Found]):
    """Probes of one kind, on one loop."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[Found]] = {}
        self._places: dict[Hashable, Hashable] = {}
        """The place of each probe under way; None where its caller named none."""
        self._returned: asyncio.Future[None] | None = None
        """Resolved when the next probe returns; awaited by callers that found all probes running."""

    @property
    def idle(self) -> bool:
        """Whether no probe is under way."""
        return not self._under_way

    def looking(self, name: Hashable) -> bool:
        """Whether a probe of this name is under way."""
        return name in self._under_way

    def begin(
        self,
        name: Hashable,
        work: Callable[[], Found],
        learn: Callable[[asyncio.Future[Found]], None] | None = None,
        place: Hashable = None,
    ) -> asyncio.Future[Found]:
        """Start a probe, or join the one of this name. `learn` is called with the result of a probe that starts here.
        Raises `ProbeFailed`.
        """
        answer = self._under_way.get(name)
        if answer is not None:
            return answer
        if (crowd := self._crowd(place)) is not None:
            raise ProbeFailed(f"{crowd} have not come back; is a disk dead?")
        answer = asyncio.get_running_loop().create_future()
        try:
            threading.Thread(target=_run, args=(answer, work), name=f"look at {name}", daemon=True).start()
        except RuntimeError as error:
            raise ProbeFailed(f"it could not be looked at: {error}") from error
        # Recorded only after the thread has started: otherwise callers of this name would wait for a probe that never
        # runs.
        self._under_way[name], self._places[name] = answer, place
        # In an empty context: the first caller's contextvars must not live on in the probe.
        answer.add_done_callback(lambda done: self._ended(name, done), context=Context())
        if learn is not None:
            answer.add_done_callback(learn, context=Context())
        return answer

    async def find(
        self,
        name: Hashable,
        work: Callable[[], Found],
        patience: float,
        learn: Callable[[asyncio.Future[Found]], None] | None = None,
        place: Hashable = None,
    ) -> Found:
        """Return the result of `work`. Raises `ProbeFailed`, and any error that `work` raised."""
        loop, patience = asyncio.get_running_loop(), min(patience, PATIENCE)
        until = loop.time() + patience
        await self._wait_for_turn(name, place, until)
        answer = self.begin(name, work, learn, place)
        await _wait_for(answer, until - loop.time())
        if not answer.done():
            raise ProbeFailed(f"its file system did not answer within {patience:.3g} s")
        return answer.result()

    def _crowd(self, place: Hashable) -> str | None:
        """The probes that occupy every place available to this one, as text; None while it may start."""
        if len(self._under_way) >= LOOKS:
            return f"{LOOKS} looks at other directories"
        if place is not None and sum(one == place for one in self._places.values()) >= LOOKS_AT_A_PLACE:
            return f"{LOOKS_AT_A_PLACE} looks at the same place"
        return None

    async def _wait_for_turn(self, name: Hashable, place: Hashable, until: float) -> None:
        """Wait until a probe may start or can be joined. If that did not happen in time, `begin` raises."""
        loop = asyncio.get_running_loop()
        while self._crowd(place) and name not in self._under_way and (left := until - loop.time()) > 0:
            if self._returned is None:
                self._returned = loop.create_future()
            await _wait_for(self._returned, left)

    def _ended(self, name: Hashable, answer: asyncio.Future[Found]) -> None:
        del self._under_way[name], self._places[name]
        if self._returned is not None:
            self._returned.set_result(None)
            self._returned = None
        if not answer.cancelled():
            answer.exception()  # retrieved here, because every caller may have given up


def _run(answer: asyncio.Future[Found], work: Callable[[], Found]) -> None:
    loop = answer.get_loop()
    try:
        settle: Callable[[], None] = _giving(answer, work())
    except Exception as error:  # noqa: BLE001 (raised again where it is awaited; on this thread it would be lost)
        settle = _raising(answer, error)
    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _giving(answer: asyncio.Future[Found], found: Found) -> Callable[[], None]:
    return lambda: None if answer.done() else answer.set_result(found)


def _raising(answer: asyncio.Future[Found], error: Exception) -> Callable[[], None]:
    return lambda: None if answer.done() else answer.set_exception(error)


async def _wait_for(answer: asyncio.Future[Any], patience: float) -> None:
    """Wait for the probe at most this long. Not `asyncio.timeout`: its cancelled timer would keep the caller's context
    until its time.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_run: asyncio.Future[Any]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    answer.add_done_callback(wake, context=Context())
    alarm = loop.call_later(patience, wake, answer, context=Context())
    try:
        await waiter
    finally:
        alarm.cancel()
        answer.remove_done_callback(wake)
