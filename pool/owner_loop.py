"""The one loop that owns a pool, and how other loops and threads reach it.

Rules:
- Work always runs on the owner loop. Another loop awaits it, a thread blocks on it; neither touches pool state.
- A caller that is cancelled on its own loop cancels the work on the owner loop, so nothing is left half-claimed.
- Once the owner loop is closed, calls raise `PoolClosed`, and so do callers that wait at that moment: a loop that ends
  runs no more of what was posted to it, so a thread would wait without end.
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
    """The owner loop of one pool. Bound once, to the loop on which the pool was started."""

    __slots__ = ("_closed", "_lock", "_loop", "_remote_waiters")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._remote_waiters: set[Future[Any]] = set()
        """The futures that other threads and loops wait for."""
        self._closed = False
        self._lock = threading.Lock()
        """Guards `_closed` and `_remote_waiters` between a thread that posts work and the loop that closes. The pool's
        only lock.
        """

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bind to the loop. A second call raises."""
        if self._loop is not None:
            raise RuntimeError("the pool was started before")
        self._loop = loop

    def close(self) -> None:
        """Take no more work and release every waiting caller. On the owner loop, before it ends. Idempotent."""
        with self._lock:
            self._closed = True
            waiting = list(self._remote_waiters)
        for future in waiting:
            future.cancel()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The pool's loop; raises before `bind`."""
        if self._loop is None:
            raise RuntimeError("the pool was not started: `await pool.start()`, or use it as a context manager")
        return self._loop

    @property
    def here(self) -> bool:
        """Whether the caller runs on the owner loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the work on the owner loop and await it on the caller's."""
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
        """Run the work on the owner loop and block this thread until it is done."""
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
        """Call on the owner loop, at once if the caller is on it; does not wait. Safe on any thread."""
        if self.here:
            call(*arguments)
        else:
            self.post(call, *arguments)

    def post(self, call: Callable[..., object], *arguments: object) -> None:
        """Call on the owner loop in a later iteration, never at once: for the garbage collector, which may interrupt
        any code. Safe on any thread.
        """
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
        future.add_done_callback(self._remote_waiters.discard)
        return future

    def _post_work(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        with self._lock:
            if self._closed or self.loop.is_closed():
                raise PoolClosed
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
            self._remote_waiters.add(future)
        return future


class LoopHandover:
    """A turn on its way to a caller on another loop or thread, which may have given up before the turn arrives. Then
    the turn is left at once. Both methods run on the owner loop, so neither can miss the other.
    """

    def __init__(self) -> None:
        self._turn: AgentTurn | None = None
        self._given_up = False

    async def begin(self, starting: Callable[[], Coroutine[Any, Any, AgentTurn]]) -> AgentTurn:
        """Start the turn; leave it if the caller has given up meanwhile."""
        turn = self._turn = await starting()
        if self._given_up:
            turn.leave()
        return turn

    def give_up(self) -> None:
        """The caller no longer waits: leave the turn now or when it starts."""
        self._given_up = True
        if self._turn is not None:
            self._turn.leave()


class RemoteTurn:
    """A turn whose consumer is on another loop or thread. It behaves as an `AgentTurn`: iterated once, and cancelled
    when it is left early.
    """

    def __init__(self, owner_loop: OwnerLoop, turn: AgentTurn) -> None:
        self._owner_loop = owner_loop
        self._turn = turn

    @property
    def finished(self) -> Finished | None:
        """The end of the turn; None while it runs."""
        return self._turn.finished

    def cancel(self) -> None:
        """Ask the agent to stop."""
        self._owner_loop.tell(self._turn.cancel)

    def _leave(self) -> None:
        # Posted, not called: the garbage collector also calls this for a dropped iterator, in the middle of any code.
        self._owner_loop.post(self._turn.leave)


class ForeignLoopTurn(RemoteTurn):
    """A turn consumed on a loop other than the pool's. Leaving `async with turn:` cancels it at once; otherwise its
    iterator does so when it is dropped.
    """

    async def ended(self) -> Finished:
        """Wait for the end without taking events."""
        return await self._owner_loop.run(self._turn.ended())

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
            while (event := await self._owner_loop.run(following(events))) is not None:
                yield event
        finally:
            self._leave()


async def following(events: AsyncIterator[TurnEvent]) -> TurnEvent | None:
    """The next event, on the owner loop. None after the last: StopAsyncIteration cannot cross a future."""
    return await anext(events, None)
