"""An observer of the pool that counts what it is told."""

from collections import Counter
from dataclasses import dataclass, field

from ostler.pool.keys import TransportKey


@dataclass
class Counts:
    """Counts every call by its labels."""

    claims: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    refusals: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    starts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    opens: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    drops: Counter[tuple[str, str]] = field(default_factory=Counter)

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None:
        del waited
        self.claims[key.provider, key.model, warmth, miss] += 1

    def refused(self, key: TransportKey, kind: str) -> None:
        self.refusals[key.provider, key.model, kind] += 1

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
