"""The configured keys and their floors: given as each key is found, and tried again until it is.

Rules:
- A key that cannot be made is not given up: it is tried again with every look at the files, and is kept warm from then
  on. It is told of once for each reason, not with every try.
- What was begun under older settings gives nothing any more.
- Floors that are configured no more are taken away after the new ones are there: of a key that is in both, no seat is
  closed to be opened again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from ostler.pool.core import events
from ostler.pool.keys import TransportKey
from ostler.pool.launch.configuration import WarmKey
from ostler.pool.observer import Observer
from ostler.pool.runner.actions import SeatWish
from ostler.pool.runner.engine import Engine
from ostler.pool.runner.launch_cache import LaunchCache
from ostler.pool.runner.live import PoolKey
from ostler.process.probe import PATIENCE, ProbeFailed

log = logging.getLogger(__name__)
Floor = tuple[PoolKey, SeatWish]
Canonical = Callable[[TransportKey, float], Awaitable[TransportKey]]


class WarmKeys:
    """Of one pool. `canonical` finds the pool's own name of a key within so many seconds."""

    def __init__(self, engine: Engine, catalogue: LaunchCache, canonical: Canonical, observer: Observer) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._canonical = canonical
        self._observer = observer
        self._given: dict[Floor, tuple[int, int]] = {}
        """The seats that the core was told to keep parked, and the edition of the settings that say so."""
        self._found: dict[WarmKey, Floor] = {}
        """The pool's own name of what was given."""
        self._cold: dict[WarmKey, str] = {}
        """What is configured and could not be given yet, and why."""

    async def take(self, warm: Iterable[WarmKey]) -> None:
        """Keep these warm from now on, and no others."""
        edition = self._catalogue.edition
        self._cold.clear()
        await self._give_all(warm, edition)
        if edition == self._catalogue.edition:
            self._take_away(edition)
            self._found = {one: floor for one, floor in self._found.items() if floor in self._given}

    def give_again(self) -> None:
        """The keys were cooled for another reason than their making: they keep their floors."""
        for (key, seat), (seats, _) in self._given.items():
            if self._engine.makings.knows(key) and self._engine.makings.failed(key) is None:
                self._engine.tell(events.KeepWarm(key, self._engine.remember(seat), seats))

    async def try_again(self) -> None:
        """What could not be given may be by now."""
        await self._give_all(list(self._cold), self._catalogue.edition)

    async def _give_all(self, warm: Iterable[WarmKey], edition: int) -> None:
        async with asyncio.TaskGroup() as group:
            for one in warm:
                group.create_task(self._give(one, edition))

    async def _give(self, warm: WarmKey, edition: int) -> None:
        try:
            key = PoolKey(await self._canonical(warm.key, PATIENCE))
            unmade = self._engine.makings.failed(key) is not None
            await self._engine.makings.prepare(key, PATIENCE)
            if edition != self._catalogue.edition:
                return  # whoever brought the newer settings does the same with them
            self._engine.makings.register(key)
        except Exception as error:  # noqa: BLE001 - told by `_stays_cold`; whatever it is, the key is tried again
            if edition == self._catalogue.edition:
                self._stays_cold(warm, error)
            return
        self._cold.pop(warm, None)
        self._found[warm] = floor = key, SeatWish(warm.tools)
        self._keep(floor, warm.seats, edition, cooled=unmade)

    def _keep(self, floor: Floor, seats: int, edition: int, *, cooled: bool) -> None:
        key, seat = floor
        before, said = self._given.get(floor, (0, edition))
        self._given[floor] = seats, edition
        # A key that could not be made meanwhile was cooled: it has its floor still and keeps nothing warm. After new
        # settings it is said in any case: who made the key anew in between may have been quicker than this look.
        if seats != before or cooled or said != edition:
            self._engine.tell(events.KeepWarm(key, self._engine.remember(seat), seats))

    def _take_away(self, edition: int) -> None:
        for key, seat in [floor for floor, (_, said) in self._given.items() if said != edition]:
            del self._given[key, seat]
            if self._engine.makings.knows(key):
                self._engine.tell(events.KeepWarm(key, seat.id, 0))

    def _stays_cold(self, warm: WarmKey, error: Exception) -> None:
        floor = self._found.get(warm)
        if floor in self._given and isinstance(error.__cause__, ProbeFailed):
            # Nobody knows better: what cannot be looked at for the moment stays as it is.
            self._given[floor] = self._given[floor][0], self._catalogue.edition
        if self._cold.get(warm) == str(error):
            return
        self._cold[warm] = str(error)
        self._observer.noted(warm.key.provider, "warm_failed", type(error).__name__)
        log.warning("cannot keep %s warm until it can be made: %s", warm.key, error)
