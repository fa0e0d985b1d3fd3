"""The API keys in force, and how they are read again while the gateway serves.

Rules:
- A failed read changes nothing: the old keys stay in force, and the log says why. A read that finds no keys where there
  were some fails too: emptying a file must not open the gateway to every client.
- Reads run on a thread, one after another, so that the last one to begin decides.
- Each read logs its result, and which changed settings it ignored.
- Running requests continue. A removed key is refused from then on, and so is a cookie that stood for it.
"""

import asyncio
import logging
from collections.abc import Callable

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.keys import Caller, KeyRing
from ostler.metrics.loops import Loops
from ostler.pool.tasks import TaskOwner

READS_WITHIN = 60.0
"""Seconds after which an unfinished read of the key file counts as stuck: a removed key may still be accepted."""
log = logging.getLogger(__name__)


class Keys:
    """A `KeySource` whose keys can be read again. `read` makes a new key ring, and may run on any thread."""

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
        """`changed` is called when a new key ring is in force. `ignored` returns the other changed settings, which need
        a restart; it may run on any thread."""
        self._rounds = (loops or Loops()).add("the reading of keys", patience=READS_WITHIN)
        self._ignored = ignored
        self._ring = ring
        self._read = read
        self._changed = changed
        self._crew = crew
        self._one_by_one = asyncio.Lock()

    @property
    def open(self) -> bool:
        """Whether requests need no key."""
        return self._ring.open

    @property
    def anyone(self) -> Caller:
        """The caller of requests that need no key."""
        return self._ring.anyone

    def caller(self, key: str) -> Caller | None:
        """Return the owner of this key, or None."""
        return self._ring.caller(key)

    def holder(self, given: bytes) -> Caller | None:
        """Return the owner of the key with this digest, or None."""
        return self._ring.holder(given)

    def reload_soon(self) -> None:
        """Read the keys again in a task of its own. No-op once the gateway ends."""
        if not self._crew.disbanded:
            self._crew.start(self.reload(), "the keys are read again")

    async def reload(self) -> None:
        """Read the keys again, and log the result."""
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
