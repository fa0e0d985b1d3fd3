"""The launch of every key that the core knows, kept current without reading files on the loop.

Rules:
- A launch is built once per key and kept until its files or the settings change. New settings make every launch stale,
  not wrong: a start that the core still orders with the old fingerprint uses the old launch, and that process ends when
  the core learns of the new one.
- Files are read on threads, through `BlockingProbe`. A result is used only under the edition of the settings that it
  was read for, so a slow read never replaces a newer launch with an older one.
- `prepare` reads what a claim needs, before the claim; `register` then has nothing left to read.
- Places are read in parallel, the keys of one place one after the other: a dead disk delays no key elsewhere.
- A key that cannot be launched under new settings is cooled, and its claims are refused with the reason. A file that
  cannot be read for the moment changes nothing: it is read again at the next interval.
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
from ostler.pool.keys import PoolKey, TransportKey
from ostler.pool.launch.builder import Launch
from ostler.pool.launch.edition import SettingsEdition
from ostler.process.probe import PATIENCE, BlockingProbe, ProbeFailed

log = logging.getLogger(__name__)


class Launches:
    """The launches and specs of one pool. `tell` passes an event to the core."""

    def __init__(self, edition: SettingsEdition, core: PoolCore, tell: Callable[[events.CoreEvent], None]) -> None:
        self.edition = edition
        self._core = core
        self._tell = tell
        self._launches: dict[TransportKey, tuple[Launch, SettingsEdition]] = {}
        self._specs: dict[PoolKey, KeySpec] = {}
        self._variants: dict[TransportKey, dict[PoolKey, None]] = {}
        self._builds: BlockingProbe[Launch] = BlockingProbe()
        self._failed: dict[PoolKey, PoolError | ValueError] = {}

    # --- what is known ---

    def knows(self, key: PoolKey) -> bool:
        """Whether the core knows the key, so that the key is canonical."""
        return key in self._specs

    def known(self) -> list[PoolKey]:
        """Every key that the core knows."""
        return list(self._specs)

    def known_as(self, key: TransportKey) -> list[PoolKey]:
        """The variants of the key that the core knows: shared, of one owner, private."""
        return list(self._variants.get(key, ()))

    def failed(self, key: PoolKey) -> PoolError | ValueError | None:
        """Why the key cannot be launched under the current settings; None if it can."""
        return self._failed.get(key)

    def of(self, key: TransportKey) -> Launch:
        """How a process of a key is started that the core knows and that has not failed."""
        return self._launches[key][0]

    def is_current(self, key: TransportKey) -> bool:
        """Whether the key was read under the current settings."""
        return key in self._launches and self._launches[key][1] is self.edition

    def forget(self, key: PoolKey) -> None:
        """The core dropped the key: forget its spec, and its launch if no variant of the key uses it."""
        self._specs.pop(key, None)
        self._failed.pop(key, None)
        known = self._variants.get(key.key, {})
        known.pop(key, None)
        # Variants of a key (shared, of one owner, private) use one launch: it stays while any of them is known.
        if not known:
            self._variants.pop(key.key, None)
            self._launches.pop(key.key, None)

    # --- for a claim ---

    async def prepare(self, key: PoolKey, patience: float) -> None:
        """Read the key's files on a thread unless that was done under the current settings, so that `register` has
        nothing to read. A changed spec of a known key is reported to the core. Raises `AgentMissing`, `BadSetting`,
        `SettingsError`.
        """
        while not self.is_current(key.key):
            edition = self.edition
            try:
                fresh = await self._build(key, patience)
            except ProbeFailed as error:
                raise self._unread(key, error, patience) from error
            except (PoolError, ValueError) as error:
                if edition is not self.edition:
                    continue
                if isinstance(error, PoolError):
                    raise error.again() from error  # each caller gets its own instance, because callers share one read
                raise
            if edition is self.edition:
                self._take(fresh)

    def register(self, key: PoolKey) -> None:
        """Make sure the core knows a key that was prepared. Raises `SettingsError`."""
        if key not in self._specs or key in self._failed:
            self._tell_spec(key)

    async def trouble(self, key: PoolKey, patience: float = PATIENCE) -> str:
        """Why the key cannot be launched now; empty if no obstacle is known. Keeps nothing."""
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
        # Named by edition too: a read begun under older settings must not answer for the current ones.
        name = (key.key, self.edition)
        place = self.edition.place(key.key)
        return self._builds.find(name, partial(self.edition.build, key.key), patience, place=place)

    def _unread(self, key: PoolKey, error: ProbeFailed, patience: float) -> AgentStartFailed:
        why = f"the files it is made of could not be read: {error.why}"
        return AgentStartFailed(
            provider=key.key.provider, phase=Phase.SPAWN, command=(), why=why, waited=min(patience, PATIENCE)
        )

    # --- refresh ---

    async def renew(self) -> None:
        """After new settings: tell the core of every key that is launched differently now, or cannot be launched any
        more.
        """
        await self._check_all(stale=True)

    async def check_files(self) -> None:
        """Check whether the files that keys are launched from have changed."""
        await self._check_all(stale=False)

    async def _check_all(self, *, stale: bool) -> None:
        places: dict[Hashable, list[PoolKey]] = {}
        for key in self.known():
            places.setdefault(self.edition.place(key.key), []).append(key)
        async with asyncio.TaskGroup() as group:
            for keys in places.values():
                group.create_task(self._check_place(keys, stale=stale))

    async def _check_place(self, keys: Iterable[PoolKey], *, stale: bool) -> None:
        """Read one key after the other, to leave probe threads to claims; if one read gets no answer, none would."""
        for key in keys:
            if stale and self.is_current(key.key):
                continue
            try:
                await self._check_key(key)
            except ProbeFailed as error:
                log.warning("cannot look at the making of %s, nor of any key beside it: %s", key, error)
                return

    async def _check_key(self, key: PoolKey) -> None:
        """Read the key's files again, on a thread: a HOME may lie on a slow disk. Raises `ProbeFailed`."""
        edition = self.edition
        try:
            fresh = await self._build(key, PATIENCE)
            if key in self._specs and edition is self.edition:
                self._take(fresh)
        except (PoolError, ValueError) as error:
            log.warning("%s cannot be started as configured now: %s", key, error)
            if edition is self.edition and not self.is_current(key.key):
                self._cool_failed(key, error)
        except (OSError, RuntimeError) as error:
            # For example a folder that may not be read. Any such error is only logged: the files are read again at the
            # next interval.
            log.warning("cannot look at the making of %s: %s", key, error)

    def _take(self, fresh: Launch) -> None:
        """Use the fresh launch from now on, for every variant of its key."""
        self._launches[fresh.key] = fresh, self.edition
        for key in self.known_as(fresh.key):
            self._tell_spec(key)

    def _cool_failed(self, key: PoolKey, error: PoolError | ValueError) -> None:
        """Cool a key that cannot be launched any more: its processes were started under settings that no longer
        hold.
        """
        self._launches.pop(key.key, None)
        newly_failed = [one for one in self.known_as(key.key) if one not in self._failed]
        # Before the core learns of any of them: a start that it orders in answer must find the failure, for there is
        # no launch any more.
        self._failed.update(dict.fromkeys(newly_failed, error))
        for one in newly_failed:
            self._tell(events.StopWarming(one))

    def _tell_spec(self, key: PoolKey) -> None:
        # Compared with what the core knows, not with the launch before: two keys may share a launch.
        spec = self.edition.spec(key, self.of(key.key))
        if self._specs.get(key) != spec:
            self._core.state.limits.check(spec)
            self._specs[key] = spec
            self._variants.setdefault(key.key, {})[key] = None
            self._tell(events.KeyRegistered(key, spec))
        self._failed.pop(key, None)
