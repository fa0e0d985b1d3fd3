"""The pool's limits.

Rules: a cap of zero or less is refused (it never means unlimited). No limit may be shorter than the start-up it has to
outlast: a time-to-live below the cold start kills every process before it serves.
"""

from dataclasses import dataclass, field, fields

from ostler.pool.core.sizing import ReserveRule
from ostler.pool.core.values import KeySpec, SettingsError


@dataclass(frozen=True, slots=True)
class Limits:
    """Every number the decisions depend on. Seconds, bytes, counts; `None` switches a check off."""

    max_processes: int = 8
    max_processes_per_key: int = 3
    max_starting: int = 4
    max_starting_per_provider: int = 2
    starts_per_second: float = 2.0
    start_burst: int = 4
    max_queue: int = 1000
    start_timeout: float = 60.0
    open_timeout: float = 60.0
    slow_open_after: float = 10.0
    slow_open_spacing: float = 60.0
    give_way: float = 3.0
    close_timeout: float = 10.0
    stop_timeout: float = 10.0
    drain_timeout: float = 600.0
    idle_after: float = 900.0
    forget_after: float = 86400.0
    max_idle_keys: int = 128
    max_age: float = 6 * 3600.0
    age_jitter: float = 0.2
    memory_budget: int | None = None
    memory_ceiling: int | None = None
    memory_growth: float = 2.0
    memory_recycle_spacing: float = 60.0
    probe_every: float | None = 30.0
    probe_misses: int = 3
    open_failures: int = 3
    breaker_after: int = 5
    backoff_base: float = 0.5
    backoff_cap: float = 60.0
    breaker_cooldown: float = 30.0
    sweep_every: float = 5.0
    sweep_grain: float = 0.02
    reserve: ReserveRule = field(default_factory=ReserveRule)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, (int, float)) and value <= 0:
                raise SettingsError(f"{item.name} = {value}: a limit of zero or less never means unlimited")
        if self.memory_growth <= 1:
            raise SettingsError(f"memory_growth = {self.memory_growth} would retire a process that never grew")
        if self.age_jitter >= 1:
            raise SettingsError(f"age_jitter = {self.age_jitter} could take the whole age away")

    def check(self, spec: KeySpec) -> None:
        """Refuse a key whose start-up these limits would cut short."""
        needed = spec.traits.start_seconds
        outlasting = {
            "start_timeout": self.start_timeout,
            "idle_after": self.idle_after,
            "max_age less its jitter": self.max_age * (1 - self.age_jitter),
        }
        for name, seconds in outlasting.items():
            if seconds < needed:
                raise SettingsError(f"{name} = {seconds} s is below the {needed} s {spec.provider} needs to start")
