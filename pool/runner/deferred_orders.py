"""Operator's orders for keys: performed at once if the core knows the key, otherwise after a thread has checked it.

Rules:
- Orders for one key are performed in the order given, including those given while it was being checked.
- Orders apply to the processes of all owners of the key, except orders about what is kept warm.
- A failed order is logged and counted: its caller has returned long before.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ostler.pool.core import events
from ostler.pool.errors import PoolError
from ostler.pool.keys import TransportKey
from ostler.pool.observer import Observer
from ostler.pool.runner.engine import Engine
from ostler.pool.runner.live import PoolKey

log = logging.getLogger(__name__)

DeferredOrder: TypeAlias = Callable[[PoolKey], events.CoreEvent]


class DeferredOrders:
    """The orders of one pool. `learn` makes a key known to the core, or raises why it cannot be."""

    def __init__(
        self, engine: Engine, learn: Callable[[TransportKey], Awaitable[TransportKey]], observer: Observer
    ) -> None:
        self._engine = engine
        self._learn = learn
        self._observer = observer
        self._waiting: dict[TransportKey, list[DeferredOrder]] = {}

    def run(self, key: TransportKey, order: DeferredOrder) -> None:
        """Perform the order, now or after the key has been checked."""
        known = PoolKey(key)
        if key in self._waiting:
            self._waiting[key].append(order)
        elif self._engine.launches.knows(known):
            self._order(key, order)
        else:
            # Start the work before adding to `_waiting`; it begins in a later step. If starting fails, no order must be
            # left waiting.
            self._engine.work(self._carry_out(key), f"orders for {key}")
            self._waiting[key] = [order]

    async def _carry_out(self, key: TransportKey) -> None:
        try:
            known = await self._learn(key)
            self._engine.require_open()
        except (PoolError, ValueError) as error:
            log.warning("what was ordered for %s is not done: %s", key, error)
            self._observer.noted(key.provider, "order_failed", type(error).__name__)
            return
        finally:
            orders = self._waiting.pop(key)
        for order in orders:
            self._order(known, order)

    def _order(self, key: TransportKey, order: DeferredOrder) -> None:
        event = order(PoolKey(key))
        self._engine.order(event)
        if not isinstance(event, events.KeepWarm):
            for known in self._engine.launches.known_as(key):
                if known.owner is not None:
                    self._engine.order(order(known))
