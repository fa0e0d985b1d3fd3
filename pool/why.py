"""Why a key is as warm as it is, as plain data: the targets explained, and how the last claims were answered.

Rules:
- Values only, JSON-ready. No token, prompt, session, owner or tools: the pool says what a claim waited for, not whose
  it was.
- `RecentClaims` is bounded twice, per key and in keys; the key without claims for longest goes first.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from ostler.pool.core.reasons import KeyReasons
from ostler.pool.keys import PoolKey
from ostler.pool.snapshot import plain_value

PER_KEY: Final = 20
KEYS: Final = 500
GRANTED: Final = "granted"


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


@dataclass(frozen=True, slots=True)
class ClaimView:
    """How one claim was answered, `ago` seconds before now."""

    ago: float
    answer: str
    warmth: str
    miss: str
    waited: float
    queue: float
    spawn: float
    session_new: float
    own_process: bool
    text: str


@dataclass(frozen=True, slots=True)
class Why:
    """One key. `reasons` is None if the pool holds nothing of it now, though it may remember claims."""

    key: str
    provider: str
    model: str
    cwd: str
    enabled: bool
    reasons: KeyReasons | None
    claims: tuple[ClaimView, ...]
    trouble: str = ""
    """Why no process of the key can be started now; empty if no obstacle is known."""

    def as_json(self) -> dict[str, Any]:
        """Nested dicts, lists, strings and numbers."""
        return {field.name: plain_value(getattr(self, field.name)) for field in fields(self)}


@dataclass
class RecentClaims:
    """The recent claims of up to `keys` keys, `per_key` of each. A value machine; the time is an argument."""

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

    def views(self, keys: Iterable[PoolKey], now: float) -> tuple[ClaimView, ...]:
        """The last claims of several variants of one key, the newest first."""
        found = [(one, key.private) for key in keys for one in self.of(key)]
        found.sort(key=lambda each: each[0].at, reverse=True)
        return tuple(
            ClaimView(now - one.at, one.answer, one.warmth, one.miss, one.waited, one.queue, one.spawn,
                      one.session_new, own, one.text)
            for one, own in found[: self.per_key]
        )  # fmt: skip
