"""What an operator decides about the pool. Values only; the numbers of the decisions are `core.settings.Limits`.

Rules: a key to keep warm is named with the tools its seats shall have, because a seat is opened with its tools.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ostler.pool.core.settings import Limits
from ostler.pool.core.values import SettingsError
from ostler.pool.keys import TransportKey
from ostler.pool.launch.settings import ProviderSettings
from ostler.pool.ports import ToolSet


@dataclass(frozen=True, slots=True)
class WarmKey:
    """A key whose seats are kept ready from the start on."""

    key: TransportKey
    tools: ToolSet | None = None
    seats: int = 1

    def __post_init__(self) -> None:
        if self.seats <= 0:
            raise SettingsError(f"{self.key}: to keep {self.seats} seats warm means nothing; leave the key out")


class Share(StrEnum):
    """Whose sessions may be in one process."""

    ALL = "all"
    OWNER = "owner"
    """Those of one owner. What is kept warm for a key is nobody's until an owner takes it, with its process."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The pool as configured. `enabled` False: one process per session, through the same calls."""

    enabled: bool = True
    limits: Limits = field(default_factory=Limits)
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    warm: tuple[WarmKey, ...] = ()
    roots: tuple[str, ...] = ()
    spares: Mapping[str, int] = field(default_factory=dict)
    """Provider to the number of started processes that wait for a directory, of each model that is in use; for keys
    that nobody can foresee."""
    claim_deadline: float = 120.0
    watch_every: float = 10.0
    """Seconds between looks at the memory of the processes and at the files that shape them."""
    share: Share = Share.ALL
    fallback: bool = True
    """After a failed start, try once more with a process of the session's own."""

    def __post_init__(self) -> None:
        if self.claim_deadline <= 0 or self.watch_every <= 0:
            raise SettingsError("claim_deadline and watch_every must be above 0 s")
