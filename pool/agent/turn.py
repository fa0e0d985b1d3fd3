"""One prompt and all its events: a bounded stream with exactly one end.

Rules:
- `async for event in turn` yields events in order; the last one is `Finished`, exactly once, however the turn ends.
- A turn is iterated once, by one consumer. Leaving the loop early cancels the turn: immediately with `async with
  turn:`, otherwise when the iterator is dropped.
- A consumer that awaits nothing between two events uses `deliver_to` instead: no task is woken for each event, which
  was a large part of the cost of a piece of text. The callback runs from the event loop, never inside the reader's
  call, so an error or slowness of one consumer affects only its turn, and texts that arrive together are still joined.
- A slow consumer stops no other component: text piles up in joined pieces, and past the budget the turn fails and is
  cancelled.
- A consumer gets at most `AT_ONCE` events in one iteration of the event loop, so that other tasks run in between.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self

from ostler.pool.events import (
    Finished,
    Other,
    PermissionAsked,
    Plan,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnEvent,
)
from ostler.wire.backlog import Backlog

SOFT = 256
BUDGET = 64 * 1024 * 1024
"""More than twice the longest line, so a single event is never refused for its size."""
AT_ONCE = 64
SMALL = 256
"""The weight of an event without a long text."""


class EventCallback:
    """Delivers events to a callback until it returns False; that event resolves `last`."""

    __slots__ = ("_context", "_loop", "called", "last", "take")

    def __init__(self, take: Callable[[TurnEvent], bool]) -> None:
        self.take = take
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self.last: asyncio.Future[TurnEvent] = self._loop.create_future()
        self.called = False
        """Whether a delivery is scheduled already."""

    def call(self, tell: Callable[[], None]) -> None:
        """Schedule one delivery for all events that arrive until then, in the context of the waiting consumer."""
        if not self.called:
            self.called = True
            self._loop.call_soon(tell, context=self._context)


class AgentTurn:
    """The event stream of one prompt. `put` and `end` are for its session, all other methods for the consumer."""

    __slots__ = (
        "_backlog",
        "_callback",
        "_cancel",
        "_end",
        "_iterated",
        "_left",
        "_over",
        "_waiter",
        "count",
    )

    def __init__(self, cancel: Callable[[], None]) -> None:
        """`cancel` asks the agent to stop; it may be called again."""
        self._cancel = cancel
        self._backlog: Backlog[TurnEvent] = Backlog(soft=SOFT, budget=BUDGET, weigh=weigh, joins=joins, gather=gather)
        self._end: Finished | None = None
        self._over = asyncio.Event()
        self._waiter: asyncio.Future[None] | None = None
        self._callback: EventCallback | None = None
        self._iterated = False
        self._left = False
        self.count = 0
        """Events so far; also tells a silent agent from a working one without reading a clock."""

    @property
    def finished(self) -> Finished | None:
        """The end, as soon as it is known; events before it may still wait to be taken."""
        return self._end

    @property
    def began(self) -> bool:
        """Whether any event came: a turn that began must not be retried blindly."""
        return self.count > 0

    def cancel(self) -> None:
        """Ask the agent to stop. Idempotent; the end comes as `Finished` within the cancel grace."""
        if self._end is None:
            self._cancel()

    async def ended(self) -> Finished:
        """Wait for the end without taking events."""
        await self._over.wait()
        if self._end is None:
            raise RuntimeError("a turn is over without an end")
        return self._end

    def put(self, event: TurnEvent) -> bool:
        """Add an event; False when the consumer is too far behind."""
        self.count += 1
        if self._left or self._end is not None:
            return True
        if not self._backlog.put(event):
            return False
        self._wake()
        return True

    def end(self, finished: Finished) -> None:
        """Set the end, once."""
        self._end = finished
        self._over.set()
        self._wake()

    async def deliver_to(self, take: Callable[[TurnEvent], bool]) -> TurnEvent:
        """Call `take` with each event until it returns False or the turn ends; return that event, or the `Finished`.

        No event is lost between two calls. An exception of `take` is raised here.
        """
        if self._iterated or self._callback is not None:
            raise RuntimeError("a turn has one consumer")
        callback = self._callback = EventCallback(take)
        try:
            self._deliver()
            return await callback.last
        finally:
            self._callback = None

    def __aiter__(self) -> AsyncIterator[TurnEvent]:
        if self._iterated:
            raise RuntimeError("a turn is iterated once")
        self._iterated = True
        return self._events()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def _wake(self) -> None:
        """Notify the consumer that there is an event to take."""
        if self._callback is not None:
            self._callback.call(self._deliver)
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _deliver(self) -> None:
        """Deliver the waiting events to the callback of `deliver_to`."""
        callback, backlog = self._callback, self._backlog
        if callback is None or callback.last.done():
            return
        callback.called = False
        try:
            for _ in range(AT_ONCE):
                if not backlog:
                    break
                event = backlog.take()
                if not callback.take(event):
                    callback.last.set_result(event)
                    return
        except Exception as error:  # noqa: BLE001 - raised where the consumer waits
            callback.last.set_exception(error)
        else:
            if backlog:
                callback.call(self._deliver)
            elif self._end is not None:
                callback.last.set_result(self._end)

    async def _events(self) -> AsyncIterator[TurnEvent]:
        backlog = self._backlog
        try:
            while True:
                taken = 0
                while backlog:
                    yield backlog.take()
                    taken += 1
                    if taken % AT_ONCE == 0:
                        await asyncio.sleep(0)
                if self._end is not None:
                    yield self._end
                    return
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        finally:
            self.leave()

    def leave(self) -> None:
        """Note that the consumer is gone: cancel the turn and drop what still arrives. Idempotent."""
        self._left = True
        self._waiter = None
        self._backlog.clear()
        self.cancel()


def weigh(event: TurnEvent) -> int:
    """About how many bytes an event holds."""
    kind = type(event)
    if kind is Text or kind is Thought:
        return len(event.text)  # type: ignore[union-attr] # narrowed by kind
    if kind is ToolEnded or kind is ToolUpdated:
        return SMALL + bulk(event.output)  # type: ignore[union-attr] # narrowed by kind
    return SMALL + rare_weight(event)


def rare_weight(event: TurnEvent) -> int:
    """The weight of events of the less frequent kinds."""
    match event:
        case ToolStarted(title=title, arguments=arguments):
            return len(title) + bulk(arguments)
        case PermissionAsked(options=options, tool_call=call):
            return SMALL * len(options) + bulk(call)
        case Plan(steps=steps):
            return sum(SMALL + len(step.text) for step in steps)
        case Other(raw=raw):
            return bulk(raw)
        case _:
            return 0


def bulk(value: Any) -> int:
    """The rough size of a JSON value. Without recursion: the agent decides how deep it is nested."""
    total, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if type(item) is str:
            total += len(item)
        elif type(item) is dict:
            total += 64 * len(item)
            waiting.extend(item.values())
        elif type(item) is list:
            total += 16 * len(item)
            waiting.extend(item)
        else:
            total += 16
    return total


def joins(last: TurnEvent, event: TurnEvent) -> bool:
    """Text joins text, thought joins thought."""
    kind = type(event)
    return (kind is Text or kind is Thought) and type(last) is kind


def gather(run: Sequence[TurnEvent]) -> TurnEvent:
    """The joined pieces as one event."""
    whole = "".join(event.text for event in run)  # type: ignore[union-attr] # only texts and thoughts are joined
    return Text(whole) if type(run[0]) is Text else Thought(whole)
