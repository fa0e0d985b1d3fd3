"""The pool: one warm agent process, many sessions. May import wire and metrics, never bridge or gateway.

    async with open_pool(PoolSettings()) as pool:
        async with await pool.lease(TransportKey("demo", "demo", "/srv/work")) as lease:
            async for event in await lease.prompt("hello"):
                ...

Threads use `ostler.pool.blocking`.
"""

from ostler.pool.configuration import PoolSettings, WarmKey
from ostler.pool.embed import open_pool
from ostler.pool.errors import PoolClosed, PoolError, PoolSaturated, UnknownProvider
from ostler.pool.keys import TransportKey, canonical_cwd
from ostler.pool.lease import Lease
from ostler.pool.pool import TransportPool
from ostler.pool.ports import ToolSet
from ostler.pool.settings import ProviderSettings

__all__ = [
    "Lease",
    "PoolClosed",
    "PoolError",
    "PoolSaturated",
    "PoolSettings",
    "ProviderSettings",
    "ToolSet",
    "TransportKey",
    "TransportPool",
    "UnknownProvider",
    "WarmKey",
    "canonical_cwd",
    "open_pool",
]
