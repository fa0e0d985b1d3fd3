"""The pool: warm agent processes, shared by many sessions. Imports wire, process and metrics, never bridge or gateway.

    async with open_pool(PoolSettings()) as pool:
        async with await pool.lease(TransportKey("demo", "demo", "/srv/work")) as lease:
            async for event in await lease.prompt("hello"):
                ...

Threads use `ostler.pool.blocking`. The names below are imported on first use: a program that needs one module of this
package, such as `keys` or `errors`, does not load the whole pool.
"""

from typing import TYPE_CHECKING

from ostler.wire.public_names import exports

if TYPE_CHECKING:
    from ostler.pool.blocking import BlockingPool as BlockingPool
    from ostler.pool.core.settings import Limits as Limits
    from ostler.pool.embed import open_pool as open_pool
    from ostler.pool.errors import AgentStartFailed as AgentStartFailed
    from ostler.pool.errors import BadDirectory as BadDirectory
    from ostler.pool.errors import BreakerOpen as BreakerOpen
    from ostler.pool.errors import LeaseEnded as LeaseEnded
    from ostler.pool.errors import NoToolPort as NoToolPort
    from ostler.pool.errors import PoolClosed as PoolClosed
    from ostler.pool.errors import PoolError as PoolError
    from ostler.pool.errors import PoolPaused as PoolPaused
    from ostler.pool.errors import PoolSaturated as PoolSaturated
    from ostler.pool.errors import SessionBusy as SessionBusy
    from ostler.pool.errors import TransportLost as TransportLost
    from ostler.pool.errors import UnknownProvider as UnknownProvider
    from ostler.pool.events import Finished as Finished
    from ostler.pool.events import Text as Text
    from ostler.pool.events import TurnEvent as TurnEvent
    from ostler.pool.keys import TransportKey as TransportKey
    from ostler.pool.keys import canonical_cwd as canonical_cwd
    from ostler.pool.launch.configuration import PoolSettings as PoolSettings
    from ostler.pool.launch.configuration import WarmKey as WarmKey
    from ostler.pool.launch.settings import ProviderSettings as ProviderSettings
    from ostler.pool.lease import Lease as Lease
    from ostler.pool.order import SessionMemo as SessionMemo
    from ostler.pool.pool import TransportPool as TransportPool
    from ostler.pool.ports import PermissionPolicy as PermissionPolicy
    from ostler.pool.ports import Tools as Tools
    from ostler.pool.ports import ToolSet as ToolSet

HOMES = {
    "AgentStartFailed": "errors",
    "BadDirectory": "errors",
    "BlockingPool": "blocking",
    "BreakerOpen": "errors",
    "Finished": "events",
    "Lease": "lease",
    "LeaseEnded": "errors",
    "Limits": "core.settings",
    "NoToolPort": "errors",
    "PermissionPolicy": "ports",
    "PoolClosed": "errors",
    "PoolError": "errors",
    "PoolPaused": "errors",
    "PoolSaturated": "errors",
    "PoolSettings": "launch.configuration",
    "ProviderSettings": "launch.settings",
    "SessionBusy": "errors",
    "SessionMemo": "order",
    "Text": "events",
    "ToolSet": "ports",
    "Tools": "ports",
    "TransportKey": "keys",
    "TransportLost": "errors",
    "TransportPool": "pool",
    "TurnEvent": "events",
    "UnknownProvider": "errors",
    "WarmKey": "launch.configuration",
    "canonical_cwd": "keys",
    "open_pool": "embed",
}

__getattr__, __dir__ = exports(__name__, HOMES)
