"""The operator's settings of the pool. Values only; the numbers that decisions use are in `core.settings.Limits`.

Rules: a key to keep warm names the tools of its seats, because a seat is opened with its tools.
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
    """A key whose seats are kept ready from the start of the gateway on."""

    key: TransportKey
    tools: ToolSet | None = None
    seats: int = 1

    def __post_init__(self) -> None:
        if self.seats <= 0:
            raise SettingsError(f"{self.key}: to keep {self.seats} seats warm means nothing; leave the key out")


class Share(StrEnum):
    """Which sessions may share one process."""

    ALL = "all"
    OWNER = "owner"
    """Only sessions of one owner. A warm process of a key has no owner until one of its seats is claimed; then the
    whole process belongs to that owner.
    """


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The pool as configured. `enabled` False: one process per session, with the same API."""

    enabled: bool = True
    limits: Limits = field(default_factory=Limits)
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    warm: tuple[WarmKey, ...] = ()
    roots: tuple[str, ...] = ()
    spares: Mapping[str, int] = field(default_factory=dict)
    """Number of spares per provider, for each model in use: started processes that wait for a directory. For keys that
    cannot be foreseen.
    """
    claim_deadline: float = 120.0
    watch_every: float = 10.0
    """Seconds between checks of the processes' memory and of the files that shape them."""
    share: Share = Share.ALL
    fallback: bool = True
    """After a failed start, try once more with a process of the session's own."""

    def __post_init__(self) -> None:
        if self.claim_deadline <= 0 or self.watch_every <= 0:
            raise SettingsError("claim_deadline and watch_every must be above 0 s")
