"""The pool for gateways that are made of threads.

Rules:
- One thread runs one loop with one pool. A call of any other thread runs on that loop, and the thread blocks until it
  is done. The guarantees are the pool's own: any number of threads that miss one key start one process.
- A thread that is interrupted while it waits withdraws its claim.
- Leaving the `with` block shuts the pool down and ends the thread, and so does an interrupt while it is entered. Calls
  made afterwards raise `PoolClosed`, and so do calls that wait at that moment.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from ostler.pool.errors import PoolClosed
from ostler.pool.events import Finished, TurnEvent
from ostler.pool.keys import TransportKey
from ostler.pool.lease import Lease
from ostler.pool.order import SessionMemo
from ostler.pool.owner_loop import LoopHandover, OwnerLoop, RemoteTurn, following
from ostler.pool.pool import TransportPool
from ostler.pool.ports import PermissionPolicy, Tools, ToolSet
from ostler.pool.prompt import PromptPart
from ostler.pool.snapshot import PoolSnapshot

Result = TypeVar("Result")
OpenPool = Callable[[], AbstractAsyncContextManager[TransportPool]]


class BlockingTurn(RemoteTurn):
    """A turn whose events a thread takes one by one."""

    def wait(self) -> Finished:
        """Block until the turn has ended, without taking its events."""
        return self._owner_loop.block(self._turn.ended())

    def __iter__(self) -> Iterator[TurnEvent]:
        return self._take(aiter(self._turn))

    def _take(self, events: AsyncIterator[TurnEvent]) -> Iterator[TurnEvent]:
        try:
            while (event := self._owner_loop.block(following(events))) is not None:
                yield event
        finally:
            self._leave()


class BlockingLease:
    """A seat held by a thread. Call `release`, or use it as a context manager."""

    def __init__(self, owner_loop: OwnerLoop, lease: Lease) -> None:
        self._owner_loop = owner_loop
        self.lease = lease

    def prompt(self, prompt: str | Sequence[PromptPart]) -> BlockingTurn:
        """Start a turn. Raises `LeaseEnded` once the lease was released."""
        handover = LoopHandover()
        try:
            turn = self._owner_loop.block(handover.begin(lambda: self.lease.begin(prompt)))
        except BaseException:
            self._owner_loop.post(handover.give_up)
            raise
        return BlockingTurn(self._owner_loop, turn)

    def release(self) -> None:
        """Give the seat back. Idempotent."""
        self.lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class BlockingPool:
    """A `TransportPool` on a thread of its own; `open_pool` is called on that thread."""

    def __init__(self, open_pool: OpenPool) -> None:
        self._open_pool = open_pool
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._live, name="ostler pool", daemon=True)
        self._pool: TransportPool | None = None
        self._stop: Callable[[], None] = _nothing
        self._stopped = False
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        try:
            self._thread.start()
            self._ready.wait()
            if self._pool is None:
                self.shutdown()
        except BaseException:
            self._end_thread()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def lease(
        self,
        key: TransportKey,
        *,
        tools: ToolSet | Tools | None = None,
        tool_context: object = None,
        owner: str = "",
        deadline: float | None = None,
        parent: int | None = None,
        policy: PermissionPolicy | None = None,
        resume: SessionMemo | None = None,
        process_owner: str = "",
    ) -> BlockingLease:
        """Lease a seat, as `TransportPool.lease`."""
        pool = self._living()
        work = pool.lease(
            key,
            tools=tools,
            tool_context=tool_context,
            owner=owner,
            deadline=deadline,
            parent=parent,
            policy=policy,
            resume=resume,
            process_owner=process_owner,
        )
        return BlockingLease(pool.owner_loop, pool.owner_loop.block(work))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine of the caller on the pool's loop and block until it is done."""
        try:
            pool = self._living()
        except PoolClosed:
            work.close()
            raise
        return pool.owner_loop.block(work)

    def snapshot(self) -> PoolSnapshot:
        """The contents of the pool, as `TransportPool.snapshot`."""
        pool = self._living()
        return pool.owner_loop.block(_called(pool.snapshot))

    def shutdown(self) -> None:
        """End every process and the thread. Idempotent. Raises the error that ended the thread, once."""
        self._end_thread()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _end_thread(self) -> None:
        # First the mark, then the call: a pool that is ready after the call finds the mark.
        self._stopped = True
        self._stop()
        if self._thread.is_alive():
            self._thread.join()

    def _living(self) -> TransportPool:
        if self._pool is None:
            raise PoolClosed
        return self._pool

    def _live(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(self._host())
            except BaseException as error:  # noqa: BLE001 (raised on the thread that opens or closes the pool)
                self._failure = error
            finally:
                self._pool = None
                self._ready.set()

    async def _host(self) -> None:
        stopping = asyncio.Event()
        with ExitStack() as leaving:
            async with self._open_pool() as pool:
                leaving.callback(pool.owner_loop.close)
                self._pool = pool
                self._stop = lambda: pool.owner_loop.post(stopping.set)
                self._ready.set()
                if not self._stopped:
                    await stopping.wait()
                self._pool = None
        # Let work that was posted before `home.close` begin, so that it is cancelled with the rest when the loop ends.
        await asyncio.sleep(0)


def _nothing() -> None:
    """Stands for the stop call while the thread is not running."""


async def _called(call: Callable[[], PoolSnapshot]) -> PoolSnapshot:
    return call()
