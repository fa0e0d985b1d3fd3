"""The crew owns its tasks: none is lost, none keeps a request alive, none takes the others with it."""

import asyncio
import contextvars
import gc
import weakref

import pytest

from ostler.pool.tasks import TaskOwner


class Caller:
    """Stands for the state of a request."""


async def test_w11b_a_task_sees_no_context_of_its_caller() -> None:
    request: contextvars.ContextVar[Caller | None] = contextvars.ContextVar("request", default=None)
    crew = TaskOwner(asyncio.get_running_loop(), lambda name, error: None)
    seen: list[Caller | None] = []
    go = asyncio.Event()

    async def work() -> None:
        seen.append(request.get())
        await go.wait()

    caller = Caller()
    dead = weakref.ref(caller)
    token = request.set(caller)
    task = crew.start(work(), "work")
    request.reset(token)
    del caller, token
    await asyncio.sleep(0)
    gc.collect()
    assert seen == [None]
    assert dead() is None
    go.set()
    await task


async def test_a_task_that_dies_is_seen_and_the_others_go_on() -> None:
    deaths: list[tuple[str, BaseException]] = []
    crew = TaskOwner(asyncio.get_running_loop(), lambda name, error: deaths.append((name, error)))
    done = asyncio.Event()

    async def dies() -> None:
        raise LookupError("gone")

    async def lives() -> None:
        await done.wait()

    crew.start(dies(), "dies")
    survivor = crew.start(lives(), "lives")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [(name, str(error)) for name, error in deaths] == [("dies", "gone")]
    assert len(crew) == 1
    done.set()
    await survivor
    assert len(crew) == 0


async def test_disband_ends_everything_and_refuses_more() -> None:
    crew = TaskOwner(asyncio.get_running_loop(), lambda name, error: None)

    async def endless() -> None:
        await asyncio.Event().wait()

    tasks = [crew.start(endless(), f"endless {number}") for number in range(3)]
    await crew.disband()
    assert all(task.cancelled() for task in tasks)
    assert len(crew) == 0
    late = endless()
    with pytest.raises(RuntimeError, match="disbanded"):
        crew.start(late, "late")
    await crew.disband()
