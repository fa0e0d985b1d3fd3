"""What the pool reports to its observer. The pool counts; the names of the metrics are the observer's affair.

Rules:
- What it is told is a provider, a key, an enum value or a phase; never a session or a token. Clients choose models and
  directories: an observer that counts by them must bound them.
- An observer cannot do harm: it is foreign code, called between a decision and its record, so its errors are caught.
"""

import logging
from collections.abc import Callable
from typing import ParamSpec, Protocol

from ostler.pool.keys import TransportKey

log = logging.getLogger(__name__)
Told = ParamSpec("Told")


class Observer(Protocol):
    """Called on the pool's loop; must not block."""

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None: ...
    def refused(self, key: TransportKey, kind: str) -> None: ...
    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None: ...
    def opened(self, provider: str, outcome: str, seconds: float) -> None: ...
    def noted(self, provider: str, what: str, cause: str) -> None: ...
    def dropped(self, provider: str, kind: str, count: int) -> None: ...


class NoPoolObserver:
    """Observes nothing. The base of observers that need only some of the calls."""

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None: ...
    def refused(self, key: TransportKey, kind: str) -> None: ...
    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None: ...
    def opened(self, provider: str, outcome: str, seconds: float) -> None: ...
    def noted(self, provider: str, what: str, cause: str) -> None: ...
    def dropped(self, provider: str, kind: str, count: int) -> None: ...


class Guarded:
    """Wraps an observer: its errors are logged and not raised."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None:
        _tell(self._observer.claimed, key, warmth, miss, waited)

    def refused(self, key: TransportKey, kind: str) -> None:
        _tell(self._observer.refused, key, kind)

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        _tell(self._observer.started, provider, outcome, phase, seconds)

    def opened(self, provider: str, outcome: str, seconds: float) -> None:
        _tell(self._observer.opened, provider, outcome, seconds)

    def noted(self, provider: str, what: str, cause: str) -> None:
        _tell(self._observer.noted, provider, what, cause)

    def dropped(self, provider: str, kind: str, count: int) -> None:
        _tell(self._observer.dropped, provider, kind, count)


def _tell(call: Callable[Told, None], *arguments: Told.args, **named: Told.kwargs) -> None:
    try:
        call(*arguments, **named)
    except Exception:
        log.exception("the pool's observer failed; what it was told is lost to it, and to nobody else")
