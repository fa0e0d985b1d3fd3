"""The one loop that a pool lives on, and the way there from everywhere else.

Rules:
- Work is always done on the home loop. Another loop awaits it, a thread blocks on it; neither touches pool state.
- A caller that is cancelled on its own loop cancels the work at home, so nothing is left half-claimed.
- Once home is closed there is nothing to reach: `PoolClosed`. Whoever waits at that moment hears the same: a loop that
  ends runs no more of what was posted to it, and a thread would wait for ever.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Self, TypeVar

from ostler.pool.agent.turn import AgentTurn
from ostler.pool.errors import PoolClosed
from ostler.pool.events import Finished, TurnEvent

Result = TypeVar("Result")


class OwnerLoop:
    """Bound once, to the loop the pool was started on."""

    __slots__ = ("_away", "_closed", "_door", "_loop")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._away: set[Future[Any]] = set()
        """What other threads wait for."""
        self._closed = False
        self._door = threading.Lock()
        """Between a thread that posts its work and the loop that takes no more: the one lock of the room."""

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Settle down. Once."""
        if self._loop is not None:
            raise RuntimeError("the pool was started before")
        self._loop = loop

    def close(self) -> None:
        """Take no more work, and tell whoever waits for some. On the home loop, before it ends. Idempotent."""
        with self._door:
            self._closed = True
            waiting = list(self._away)
        for future in waiting:
            future.cancel()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The pool's loop."""
        if self._loop is None:
            raise RuntimeError("the pool was not started: `await pool.start()`, or use it as a context manager")
        return self._loop

    @property
    def here(self) -> bool:
        """Whether the caller runs on the home loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do it at home, await it here."""
        if self.here or self._loop is None:
            return await work
        future = self._send(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError as error:
            caller = asyncio.current_task()
            if self._closed and (caller is None or not caller.cancelling()):
                raise PoolClosed from error
            raise

    def block(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do it at home, block this thread until it is done."""
        if self.here:
            work.close()
            raise RuntimeError("a blocking call on the pool's own loop would wait for itself; await it instead")
        future = self._send(work)
        try:
            return future.result()
        except CancelledError as error:
            if self._closed:
                raise PoolClosed from error
            raise
        except BaseException:
            future.cancel()
            raise

    def tell(self, call: Callable[..., object], *arguments: object) -> None:
        """Call at home, now or as soon as it can be; nobody waits for it. Safe on any thread."""
        if self.here:
            call(*arguments)
        else:
            self.post(call, *arguments)

    def post(self, call: Callable[..., object], *arguments: object) -> None:
        """Call at home in a later turn of the loop, never now: for the collector, which may run in the midst of
        anything. Safe on any thread."""
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _send(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        try:
            future = self._post_work(work)
        except BaseException:
            work.close()
            raise
        future.add_done_callback(self._away.discard)
        return future

    def _post_work(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        with self._door:
            if self._closed or self.loop.is_closed():
                raise PoolClosed
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
            self._away.add(future)
        return future


class LoopHandover:
    """A turn on its way to somebody who is not at home and may be gone before it gets there: then it is left at once,
    since nobody has it who could. Both sides of it are played at home, so neither can miss the other."""

    def __init__(self) -> None:
        self._turn: AgentTurn | None = None
        self._given_up = False

    async def begin(self, starting: Callable[[], Coroutine[Any, Any, AgentTurn]]) -> AgentTurn:
        """Start it."""
        turn = self._turn = await starting()
        if self._given_up:
            turn.leave()
        return turn

    def give_up(self) -> None:
        """Nobody waits for it any more."""
        self._given_up = True
        if self._turn is not None:
            self._turn.leave()


class RemoteTurn:
    """A turn in the hands of somebody who is not at home. To its consumer it is as the `Turn`: iterated once, and
    cancelled when it is left early."""

    def __init__(self, home: OwnerLoop, turn: AgentTurn) -> None:
        self._home = home
        self._turn = turn

    @property
    def finished(self) -> Finished | None:
        """The end, as soon as it is known."""
        return self._turn.finished

    def cancel(self) -> None:
        """Ask the agent to stop."""
        self._home.tell(self._turn.cancel)

    def _leave(self) -> None:
        # Also called by the collector, for an iterator that was dropped: at home it may be in the midst of anything.
        self._home.post(self._turn.leave)


class ForeignLoopTurn(RemoteTurn):
    """On another loop than the pool's. Leaving `async with turn:` cancels it at once; else its iterator does when it is
    dropped."""

    async def ended(self) -> Finished:
        """Wait for the end without taking events."""
        return await self._home.run(self._turn.ended())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def __aiter__(self) -> AsyncIterator[TurnEvent]:
        return self._carry(aiter(self._turn))

    async def _carry(self, events: AsyncIterator[TurnEvent]) -> AsyncIterator[TurnEvent]:
        try:
            while (event := await self._home.run(following(events))) is not None:
                yield event
        finally:
            self._leave()


async def following(events: AsyncIterator[TurnEvent]) -> TurnEvent | None:
    """The next event, on the home loop. None after the last: StopAsyncIteration cannot cross a future."""
    return await anext(events, None)
