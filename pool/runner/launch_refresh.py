"""What the core knows of how keys are made, and how it hears of a change: without a read on the loop.

Rules:
- Files are read on threads, as `looks` says. What was read is used only if the settings are still those it was read
  for, so a slow look never puts an older making in the place of a newer one.
- `prepare` reads what a claim needs, before the claim; `register` then has nothing left to read.
- Places are looked at beside each other, the keys of one place one after the other: what lies on a dead disk keeps
  nobody else waiting.
- A key of which new settings make nothing is cooled, and whoever claims it is told why. A file that cannot be read for
  the moment changes nothing: the next look comes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Iterable
from functools import partial
from typing import Any

from ostler.pool.core import events
from ostler.pool.core.machine import PoolCore
from ostler.pool.core.values import KeySpec
from ostler.pool.errors import AgentStartFailed, Phase, PoolError
from ostler.pool.keys import TransportKey
from ostler.pool.launch.builder import Launch
from ostler.pool.runner.launch_cache import LaunchCache
from ostler.pool.runner.live import PoolKey
from ostler.process.probe import PATIENCE, BlockingProbe, ProbeFailed

log = logging.getLogger(__name__)


class LaunchRefresh:
    """Between the catalogue and the core of one pool."""

    def __init__(self, catalogue: LaunchCache, core: PoolCore, tell: Callable[[events.CoreEvent], None]) -> None:
        self._catalogue = catalogue
        self._core = core
        self._tell = tell
        self._specs: dict[PoolKey, KeySpec] = {}
        self._variants: dict[TransportKey, dict[PoolKey, None]] = {}
        self._builds: BlockingProbe[Launch] = BlockingProbe()
        self._failed: dict[PoolKey, PoolError | ValueError] = {}

    def knows(self, key: PoolKey) -> bool:
        """Whether the core was told of the key, so that it is canonical."""
        return key in self._specs

    def known(self) -> list[PoolKey]:
        """Every key that the core was told of."""
        return list(self._specs)

    def failed(self, key: PoolKey) -> PoolError | ValueError | None:
        """Why nothing can be made of a key under the present settings."""
        return self._failed.get(key)

    def forget(self, key: PoolKey) -> None:
        """The core dropped the key."""
        self._specs.pop(key, None)
        self._failed.pop(key, None)
        known = self._variants.get(key.key, {})
        known.pop(key, None)
        # For everybody, for one owner and for one session alone it is one launch: another may still be started of it.
        if not known:
            self._variants.pop(key.key, None)
            self._catalogue.forget(key.key)

    def register(self, key: PoolKey) -> None:
        """Make sure the core knows the key. Raises what the catalogue raises, and `SettingsError`."""
        if key not in self._specs or key in self._failed:
            self._tell_spec(key, self._catalogue.spec(key))

    async def prepare(self, key: PoolKey, patience: float) -> None:
        """Have the key's files read on a thread where nobody has under the present settings, so that `register` has
        none to read. What comes of a known key is told to the core. Raises what `register` raises."""
        while not self._catalogue.is_current(key.key):
            edition = self._catalogue.edition
            try:
                fresh = await self._build(key, patience)
            except ProbeFailed as error:
                raise self._unread(key, error, patience) from error
            except (PoolError, ValueError) as error:
                if edition != self._catalogue.edition:
                    continue
                if isinstance(error, PoolError):
                    raise error.again() from error  # one of each claimer's own: they share the look
                raise
            if edition == self._catalogue.edition:
                self._take(fresh)

    async def trouble(self, key: PoolKey, patience: float = PATIENCE) -> str:
        """Why nothing can be made of the key as the world is now; empty where nothing is in the way. Keeps nothing."""
        try:
            await self._build(key, patience)
        except ProbeFailed as error:
            return f"the files it is made of could not be read: {error.why}"
        except AgentStartFailed as error:
            return error.why
        except (PoolError, ValueError, OSError) as error:
            return str(error)
        return ""

    def _build(self, key: PoolKey, patience: float) -> Coroutine[Any, Any, Launch]:
        # By edition too: what was begun with older settings is not to be had for the present ones.
        name = (key.key, self._catalogue.edition)
        place = self._catalogue.place(key.key)
        return self._builds.find(name, partial(self._catalogue.build, key.key), patience, place=place)

    def _unread(self, key: PoolKey, error: ProbeFailed, patience: float) -> AgentStartFailed:
        why = f"the files it is made of could not be read: {error.why}"
        return AgentStartFailed(
            provider=key.key.provider, phase=Phase.SPAWN, command=(), why=why, waited=min(patience, PATIENCE)
        )

    async def renew(self) -> None:
        """There are new settings: tell the core of every key that is made differently now, or is made no more."""
        await self._look_round(stale=True)

    async def look_anew(self) -> None:
        """Look whether the files that keys are made of have changed."""
        await self._look_round(stale=False)

    async def _look_round(self, *, stale: bool) -> None:
        places: dict[Hashable, list[PoolKey]] = {}
        for key in self.known():
            places.setdefault(self._catalogue.place(key.key), []).append(key)
        async with asyncio.TaskGroup() as group:
            for keys in places.values():
                group.create_task(self._look_at_place(keys, stale=stale))

    async def _look_at_place(self, keys: Iterable[PoolKey], *, stale: bool) -> None:
        """One key after the other, to take no look from a claim; where one is not answered, none would be."""
        for key in keys:
            if stale and self._catalogue.is_current(key.key):
                continue
            try:
                await self._look_anew(key)
            except ProbeFailed as error:
                log.warning("cannot look at the making of %s, nor of any key beside it: %s", key, error)
                return

    async def _look_anew(self, key: PoolKey) -> None:
        """Read the key's files again, on a thread: a HOME may lie on a slow disk. Raises `NoLook`."""
        edition = self._catalogue.edition
        try:
            fresh = await self._build(key, PATIENCE)
            if key in self._specs and edition == self._catalogue.edition:
                self._take(fresh)
        except (PoolError, ValueError) as error:
            log.warning("%s cannot be started as configured now: %s", key, error)
            if edition == self._catalogue.edition and not self._catalogue.is_current(key.key):
                self._unmake(key, error)
        except (OSError, RuntimeError) as error:
            # A folder that may not be read, for instance: whatever it is, the next look comes.
            log.warning("cannot look at the making of %s: %s", key, error)

    def _take(self, fresh: Launch) -> None:
        """From here on the key is made so; for everybody or for one session alone, it is made the same way."""
        self._catalogue.refresh(fresh)
        for key in self.known_as(fresh.key):
            self._tell_spec(key, self._catalogue.spec(key))

    def _unmake(self, key: PoolKey, error: PoolError | ValueError) -> None:
        """What is up was made of settings that hold no more: nothing is started of them again."""
        self._catalogue.forget(key.key)
        unmade = [one for one in self.known_as(key.key) if one not in self._failed]
        # Before the core hears of any of them: what it starts in answer would be read on the loop.
        self._failed.update(dict.fromkeys(unmade, error))
        for one in unmade:
            self._tell(events.StopWarming(one))

    def known_as(self, key: TransportKey) -> list[PoolKey]:
        """For everybody, for one owner and for one session alone, as far as the core was told of them."""
        return list(self._variants.get(key, ()))

    def _tell_spec(self, key: PoolKey, spec: KeySpec) -> None:
        # Compared with what the core was told, not with the launch before: two keys may share a launch.
        if self._specs.get(key) != spec:
            self._core.books.limits.check(spec)
            self._specs[key] = spec
            self._variants.setdefault(key.key, {})[key] = None
            self._tell(events.KeyRegistered(key, spec))
        self._failed.pop(key, None)
