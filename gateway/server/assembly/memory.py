"""Opens the memory providers, and the worker that reports events to them."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from ostler.gateway.config.load import Loaded
from ostler.gateway.memory import load as load_memory
from ostler.gateway.memory.memories import Memories
from ostler.gateway.memory.provider import MakeProvider, MemoryHome
from ostler.gateway.memory.users import Users
from ostler.gateway.memory.watch import MemoryWatch
from ostler.gateway.model.ids import Ids
from ostler.gateway.model.store import Store
from ostler.gateway.ops.log import log_death
from ostler.metrics.loops import Loops
from ostler.pool.tasks import TaskOwner


@asynccontextmanager
async def open_memory(
    loaded: Loaded,
    store: Store,
    wall: Callable[[], float],
    given: Mapping[str, MakeProvider],
    watch: MemoryWatch,
    *,
    loops: Loops | None = None,
) -> AsyncIterator[Memories]:
    """The memory of one gateway; without providers if memory is disabled."""
    settings = loaded.settings.memory
    home = MemoryHome(loaded.data_dir, settings, wall, Ids(secrets.token_bytes).make)
    tasks = TaskOwner(asyncio.get_running_loop(), log_death)
    providers = load_memory(home, given=given) if settings.enabled else {}
    memories = Memories(providers, Users(store), settings, watch, loops=loops)
    worker = tasks.start(memories.work(), "memory")
    try:
        yield memories
    finally:
        await memories.close(worker)
        await tasks.disband()
