"""The owner of every task that the pool starts.

Rules:
- A task runs in an empty context: no contextvar of the request that caused it lives on in the pool.
- A task that dies of an exception is reported to `on_death` at once. It never cancels other tasks, which is why this is
  no `TaskGroup`: one agent's bug must not cancel the work for all the other agents.
- `disband` cancels every task that still runs and waits for it; afterwards nothing can be started.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any


class TaskOwner:
    """The tasks of one owner, on one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_death: Callable[[str, BaseException], None]) -> None:
        self._loop = loop
        self._on_death = on_death
        self._tasks: set[asyncio.Task[None]] = set()
        self._disbanded = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def disbanded(self) -> bool:
        """Whether `disband` was called, so that nothing can be started any more."""
        return self._disbanded

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` as a task that this object owns; the caller may cancel the returned task."""
        if self._disbanded:
            work.close()
            raise RuntimeError(f"the tasks are disbanded, {name} cannot start")
        empty = contextvars.Context()
        task = self._loop.create_task(work, name=name, context=empty)
        self._tasks.add(task)
        # The callback too: without its own context it would hold a copy of the caller's until the task ends.
        task.add_done_callback(self._ended, context=empty)
        return task

    async def disband(self) -> None:
        """Cancel and await every task. Idempotent."""
        self._disbanded = True
        while self._tasks:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_death(task.get_name(), error)
