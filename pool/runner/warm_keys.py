"""The configured keys and their floors: set as each key is checked, and tried again until they are.

Rules:
- A key that cannot be launched is not given up: it is tried again each time files are checked, and is kept warm from
  then on. It is reported once for each reason, not with every try.
- A try that began under older settings sets no floor.
- Floors that are no longer configured are removed after the new ones are set: of a key that is in both, no seat is
  closed and opened again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from ostler.pool.core import events
from ostler.pool.keys import PoolKey, TransportKey
from ostler.pool.launch.configuration import WarmKey
from ostler.pool.launch.edition import SettingsEdition
from ostler.pool.observer import Observer
from ostler.pool.ports import ToolSet
from ostler.pool.runner.engine import Engine
from ostler.process.probe import PATIENCE, ProbeFailed

log = logging.getLogger(__name__)
Floor = tuple[PoolKey, ToolSet | None]
Canonical = Callable[[TransportKey, float], Awaitable[TransportKey]]


class WarmKeys:
    """The configured floors of one pool. `canonical` finds the canonical form of a key within the given seconds."""

    def __init__(self, engine: Engine, canonical: Canonical, observer: Observer) -> None:
        self._engine = engine
        self._canonical = canonical
        self._observer = observer
        self._given: dict[Floor, tuple[int, SettingsEdition]] = {}
        """The seats that the core was told to keep parked, and the edition of the settings that asked for them."""
        self._found: dict[WarmKey, Floor] = {}
        """The floor of each configured key under its canonical name."""
        self._cold: dict[WarmKey, str] = {}
        """The configured keys whose floor could not be set yet, and why."""

    async def take(self, warm: Iterable[WarmKey]) -> None:
        """Keep exactly these keys warm from now on."""
        edition = self._engine.launches.edition
        self._cold.clear()
        await self._give_all(warm, edition)
        if edition is self._engine.launches.edition:
            self._take_away(edition)
            self._found = {one: floor for one, floor in self._found.items() if floor in self._given}

    async def try_again(self) -> None:
        """Try again to set the floors that could not be set."""
        await self._give_all(list(self._cold), self._engine.launches.edition)

    async def _give_all(self, warm: Iterable[WarmKey], edition: SettingsEdition) -> None:
        async with asyncio.TaskGroup() as group:
            for one in warm:
                group.create_task(self._give(one, edition))

    async def _give(self, warm: WarmKey, edition: SettingsEdition) -> None:
        try:
            key = PoolKey(await self._canonical(warm.key, PATIENCE))
            had_failed = self._engine.launches.failed(key) is not None
            await self._engine.launches.prepare(key, PATIENCE)
            if edition is not self._engine.launches.edition:
                return  # newer settings have their own `take`, which sets these floors
            self._engine.launches.register(key)
        except Exception as error:  # noqa: BLE001 - reported by `_stays_cold`; after any error the key is tried again
            if edition is self._engine.launches.edition:
                self._stays_cold(warm, error)
            return
        self._cold.pop(warm, None)
        self._found[warm] = floor = key, warm.tools
        self._keep(floor, warm.seats, edition, cooled=had_failed)

    def _keep(self, floor: Floor, seats: int, edition: SettingsEdition, *, cooled: bool) -> None:
        key, tools = floor
        before, said = self._given.get(floor, (0, edition))
        self._given[floor] = seats, edition
        # A key that could not be launched was cooled meanwhile: its floor is set, but it keeps nothing warm. After new
        # settings the floor is always set again: the key may have been cooled and recovered before this check.
        if seats != before or cooled or said is not edition:
            self._engine.tell(events.KeepWarm(key, tools, seats))

    def _take_away(self, edition: SettingsEdition) -> None:
        for key, tools in [floor for floor, (_, said) in self._given.items() if said is not edition]:
            del self._given[key, tools]
            if self._engine.launches.knows(key):
                self._engine.tell(events.KeepWarm(key, tools, 0))

    def _stays_cold(self, warm: WarmKey, error: Exception) -> None:
        floor = self._found.get(warm)
        if floor in self._given and isinstance(error.__cause__, ProbeFailed):
            # The file system did not answer, so nothing is known about the key: its floor stays as it is.
            self._given[floor] = self._given[floor][0], self._engine.launches.edition
        if self._cold.get(warm) == str(error):
            return
        self._cold[warm] = str(error)
        self._observer.noted(warm.key.provider, "warm_failed", type(error).__name__)
        log.warning("cannot keep %s warm until it can be made: %s", warm.key, error)
