"""The last outcomes of the claims of each key: an operator reads them to learn why a claim waited.

Rules: bounded twice, per key and in keys; the key without claims for longest goes first. No session, owner or tools are
recorded: the pool says what a claim waited for, not whose it was. A value machine; the time is an argument.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field

PER_KEY = 20
KEYS = 500
GRANTED = "granted"


@dataclass(frozen=True, slots=True)
class ClaimDecision:
    """One claim. Times in seconds; `answer` is `granted` or the kind of the refusal."""

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
        """The seconds from the claim to its answer."""
        return self.queue + self.spawn + self.session_new


@dataclass
class RecentClaims:
    """The recent claims of up to `keys` keys, `per_key` of each."""

    per_key: int = PER_KEY
    keys: int = KEYS
    _by_key: OrderedDict[Hashable, deque[ClaimDecision]] = field(default_factory=OrderedDict)

    def record(self, key: Hashable, decision: ClaimDecision) -> None:
        """Add a decision; forget the key without claims for longest if there are too many keys."""
        decisions = self._by_key.get(key)
        if decisions is None:
            decisions = self._by_key[key] = deque(maxlen=self.per_key)
        self._by_key.move_to_end(key)
        if len(self._by_key) > self.keys:
            self._by_key.popitem(last=False)
        decisions.append(decision)

    def of(self, key: Hashable) -> tuple[ClaimDecision, ...]:
        """The decisions of one key, the newest first."""
        return tuple(reversed(self._by_key.get(key, ())))
