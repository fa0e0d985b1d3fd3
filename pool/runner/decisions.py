"""The last answers that claims of each key got: what an operator reads to learn why somebody waited.

Rules: bounded twice, per key and in keys, the key that was quiet longest goes first. No session, no owner, no tools:
what a claim waited for is the pool's affair, whose it was is not. A value machine; the time is an argument.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field

PER_KEY = 20
KEYS = 500
GRANTED = "granted"


@dataclass(frozen=True, slots=True)
class ClaimDecision:
    """One claim. Seconds; `answer` is `granted` or the kind of the refusal."""

    at: float
    answer: str
    warmth: str = ""
    miss: str = ""
    queue: float = 0.0
    spawn: float = 0.0
    session_new: float = 0.0
    text: str = ""

    @property
    def waited(self) -> float:
        """From the claim to its answer."""
        return self.queue + self.spawn + self.session_new


@dataclass
class RecentClaims:
    """By key."""

    per_key: int = PER_KEY
    keys: int = KEYS
    _rings: OrderedDict[Hashable, deque[ClaimDecision]] = field(default_factory=OrderedDict)

    def record(self, key: Hashable, decision: ClaimDecision) -> None:
        """One more."""
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = deque(maxlen=self.per_key)
        self._rings.move_to_end(key)
        if len(self._rings) > self.keys:
            self._rings.popitem(last=False)
        ring.append(decision)

    def of(self, key: Hashable) -> tuple[ClaimDecision, ...]:
        """The newest first."""
        return tuple(reversed(self._rings.get(key, ())))
