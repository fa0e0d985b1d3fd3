"""What the bridge counted, as plain integers: read by the metrics, never by a decision."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stats:
    connections: int = 0
    connected: int = 0
    reconnects: int = 0
    evicted: int = 0
    hello_timeouts: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    """Bindings that were given up, by why their agents could reach them no more."""
    calls: int = 0
    calls_running: int = 0
    calls_failed: int = 0
    calls_ended: int = 0
    call_seconds: float = 0.0
    frames_dropped: int = 0
