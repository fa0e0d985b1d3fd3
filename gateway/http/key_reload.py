"""The keys in force, and how they are read again while the gateway serves.

Rules:
- A reading that fails changes nothing: the old keys hold, and the log says why. So does one that finds no keys where
  there were some: a gateway does not become everybody's because a file was emptied.
- Readings are made on a thread, one after another, so that the last one to begin is the one that counts.
- Each reading says what it took, and which changed settings it left as they were.
- Who came in before keeps what runs; a key that is gone opens nothing any more, nor does the cookie that stood for it.
"""

import asyncio
import logging
from collections.abc import Callable

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.keys import Caller, KeyRing
from ostler.metrics.loops import Loops
from ostler.pool.tasks import TaskOwner

READS_WITHIN = 60.0
"""Seconds after which a file of keys that is not read counts as stuck: a key that was taken away may still open."""
log = logging.getLogger(__name__)


class Keys:
    """A `Ring`. `read` makes a fresh one, on any thread; `changed` is called when one is in force."""

    def __init__(
        self,
        ring: KeyRing,
        read: Callable[[], KeyRing],
        crew: TaskOwner,
        *,
        changed: Callable[[KeyRing], None],
        ignored: Callable[[], list[str]] = list,
        loops: Loops | None = None,
    ) -> None:
        """`changed` is called when a fresh one is in force; `ignored` names what else has changed and wants a restart,
        on any thread."""
        self._rounds = (loops or Loops()).add("the reading of keys", patience=READS_WITHIN)
        self._ignored = ignored
        self._ring = ring
        self._read = read
        self._changed = changed
        self._crew = crew
        self._one_by_one = asyncio.Lock()

    @property
    def open(self) -> bool:
        """Whether no key is asked for."""
        return self._ring.open

    @property
    def anyone(self) -> Caller:
        """Who it is that needs no key."""
        return self._ring.anyone

    def caller(self, key: str) -> Caller | None:
        """Whose key this is."""
        return self._ring.caller(key)

    def holder(self, given: bytes) -> Caller | None:
        """By a key's digest."""
        return self._ring.holder(given)

    def reload_soon(self) -> None:
        """Read them again, beside what is under way; not any more once the gateway ends."""
        if not self._crew.disbanded:
            self._crew.start(self.reload(), "the keys are read again")

    async def reload(self) -> None:
        """Read them again, and say what came of it."""
        async with self._one_by_one:
            with self._rounds.round():
                await self._reload()

    async def _reload(self) -> None:
        await self._read_again()
        try:
            ignored = await asyncio.to_thread(self._ignored)
        except ConfigError as error:
            text = "nothing else is read again, and the configuration is broken: %s"
            log.error(text, error)  # noqa: TRY400 - the error says it all
            return
        if ignored:
            names = ", ".join(ignored)
            log.warning("only keys of the key file are read again; changed, and ignored until a restart: %s", names)
        else:
            log.info("nothing else is read again; the configuration file has not changed")

    async def _read_again(self) -> None:
        try:
            fresh = await asyncio.to_thread(self._read)
        except ConfigError as error:
            log.error("the keys stay as they were: %s", error)  # noqa: TRY400 - the error says it all
            return
        if fresh.open and not self._ring.open:
            log.error("the keys stay as they were: there are none any more; restart to serve without keys")
            return
        before, now = dict(self._ring.entries), dict(fresh.entries)
        self._ring = fresh
        self._changed(fresh)
        changed = sum(before[key] != now[key] for key in before.keys() & now.keys())
        told = len(now), len(now.keys() - before.keys()), len(before.keys() - now.keys()), changed
        log.info("the keys were read again: %d are in force, %d new, %d gone, %d changed", *told)
