"""The counters of the bridge, as plain integers: read by the metrics, never by a decision."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stats:
    """Counters since the start of the bridge; `connected` and `calls_running` are current values."""

    connections: int = 0
    connected: int = 0
    reconnects: int = 0
    evicted: int = 0
    hello_timeouts: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    """Bindings that were given up, by the reason (`Loss`)."""
    calls: int = 0
    calls_running: int = 0
    calls_failed: int = 0
    calls_ended: int = 0
    call_seconds: float = 0.0
    frames_dropped: int = 0
