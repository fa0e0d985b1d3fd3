"""How a process ended: facts only. The transport judges them; exit code 0 does not mean a clean end."""

import signal
from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    BY_ITSELF = "by itself"
    ON_EOF = "after stdin was closed"
    ON_TERMINATE = "after SIGTERM"
    ON_KILL = "after SIGKILL"


@dataclass(frozen=True, slots=True)
class Exit:
    pid: int
    code: int | None
    """None when a signal ended the process, or when other code in this program collected the status first."""
    signal: int | None
    ending: Ending
    """The last thing we had done to the process when it ended."""
    after: float
    """Seconds from its start to its end."""
    stderr: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.signal is not None:
            how = f"signal {_name(self.signal)}"
        else:
            how = "unknown status" if self.code is None else f"exit code {self.code}"
        return f"pid {self.pid} ended {self.ending} with {how} after {self.after:.1f} s"


def _name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else str(number)
