"""What the pool reports to its observer. The pool counts; the names of the metrics are the observer's affair.

Rules:
- Labels are bounded (provider, model, an enum value, a phase); never a session, a token or a path. Clients choose
  models: the first `MODELS` of them are counted by name, all others as `other`.
- An observer cannot do harm: it is foreign code, called between a decision and its record, so its errors are caught.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, Protocol

from ostler.metrics.words import LabelWords
from ostler.pool.keys import TransportKey

log = logging.getLogger(__name__)
Told = ParamSpec("Told")
MODELS = 100


class Observer(Protocol):
    """Called on the pool's loop; must not block."""

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None: ...
    def refused(self, key: TransportKey, kind: str) -> None: ...
    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None: ...
    def opened(self, provider: str, outcome: str, seconds: float) -> None: ...
    def noted(self, provider: str, what: str, cause: str) -> None: ...
    def dropped(self, provider: str, kind: str, count: int) -> None: ...


@dataclass
class Counts:
    """The default observer: plain counters, for embedders that pass one in and for tests."""

    claims: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    refusals: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    starts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    opens: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    drops: Counter[tuple[str, str]] = field(default_factory=Counter)
    models: LabelWords = field(default_factory=lambda: LabelWords(MODELS))

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None:
        del waited
        self.claims[key.provider, self.models.word(key.model), warmth, miss] += 1

    def refused(self, key: TransportKey, kind: str) -> None:
        self.refusals[key.provider, self.models.word(key.model), kind] += 1

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        del seconds
        self.starts[provider, outcome, phase] += 1

    def opened(self, provider: str, outcome: str, seconds: float) -> None:
        del seconds
        self.opens[provider, outcome] += 1

    def noted(self, provider: str, what: str, cause: str) -> None:
        self.notes[provider, what, cause] += 1

    def dropped(self, provider: str, kind: str, count: int) -> None:
        self.drops[provider, kind] += count


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
