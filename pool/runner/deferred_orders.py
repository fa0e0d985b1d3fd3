"""Orders for keys: carried out at once where the core knows the key, else when a thread has looked at it.

Rules: orders for one key are carried out as they were given, also those that came while it was being looked at, and for
the processes of all its owners, unless they are about what is kept warm. One that cannot be carried out is logged and
counted: whoever gave it is long gone.
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
    """Of one pool. `learn` makes a key known to the core, or says why it cannot be."""

    def __init__(
        self, engine: Engine, learn: Callable[[TransportKey], Awaitable[TransportKey]], observer: Observer
    ) -> None:
        self._engine = engine
        self._learn = learn
        self._observer = observer
        self._waiting: dict[TransportKey, list[DeferredOrder]] = {}

    def run(self, key: TransportKey, order: DeferredOrder) -> None:
        """Have it carried out."""
        known = PoolKey(key)
        if key in self._waiting:
            self._waiting[key].append(order)
        elif self._engine.makings.knows(known):
            self._order(key, order)
        else:
            # First the work, which begins in a later step: without it nothing that waits would ever be done.
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
        if not isinstance(event, events.KeepWarm | events.Hint):
            for known in self._engine.makings.known_as(key):
                if known.owner is not None:
                    self._engine.order(order(known))
