"""A chat gateway that imports the pool: many riders, one saddled horse.

    python examples/embed_async.py [PROVIDER [MODEL]]

Each rider has a session of its own. The first answer pays for the start of the agent, the others do not.
"""

import asyncio
import sys
import time
from pathlib import Path

from ostler.pool import PoolSettings, TransportKey, TransportPool, open_pool
from ostler.pool.events import Text


async def ride(pool: TransportPool, key: TransportKey, name: str) -> None:
    began = time.perf_counter()
    async with await pool.lease(key, owner=name) as lease:
        turn = await lease.prompt(f"my name is {name}")
        words = "".join([event.text async for event in turn if isinstance(event, Text)])
        print(f"{name}: {words}  ({lease.warmth}, {(time.perf_counter() - began) * 1000:.0f} ms)")


def key_of(provider: str = "demo", model: str = "default") -> TransportKey:
    return TransportKey(provider, model, str(Path.cwd()))


async def main(key: TransportKey) -> None:
    async with open_pool(PoolSettings()) as pool:
        await ride(pool, key, "ann")
        await asyncio.gather(*(ride(pool, key, name) for name in ("bob", "cy", "dee")))
        print(f"{len(pool.snapshot().processes)} process served 4 sessions")


if __name__ == "__main__":
    asyncio.run(main(key_of(*sys.argv[1:])))
