"""The API keys in force. A reload puts others in their place while the gateway serves.

Rules:
- Requests that are running keep running. A key that is gone admits no further request, and its browser login ends.
- A gateway with keys never becomes one without: a reload that finds none is refused.
"""

import logging

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.keys import Caller, KeyRing

log = logging.getLogger(__name__)


class Keys:
    """A `KeyRing` that can be replaced."""

    def __init__(self, current: KeyRing) -> None:
        self._current = current

    @property
    def open(self) -> bool:
        """Whether requests need no key."""
        return self._current.open

    @property
    def anyone(self) -> Caller:
        """The caller of requests without a key, where none is needed."""
        return self._current.anyone

    def caller(self, key: str) -> Caller | None:
        """The caller with this key."""
        return self._current.caller(key)

    def holder(self, given: bytes) -> Caller | None:
        """The caller, by the digest of the key."""
        return self._current.holder(given)

    def require_keys(self, fresh: KeyRing) -> None:
        """Raise `ConfigError` where there would be no keys any more."""
        if fresh.open and not self._current.open:
            raise ConfigError("auth", "there are no keys any more; restart to serve without keys")

    def replace(self, fresh: KeyRing) -> None:
        """Admit the holders of these keys from now on."""
        before, now = dict(self._current.entries), dict(fresh.entries)
        self._current = fresh
        changed = sum(before[key] != now[key] for key in before.keys() & now.keys())
        told = len(now), len(now.keys() - before.keys()), len(before.keys() - now.keys()), changed
        log.info("the keys were read again: %d are in force, %d new, %d gone, %d changed", *told)
