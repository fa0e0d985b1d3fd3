"""How a process is ended, as a value: what to do, and how long to wait before the next step; and how it ended.

Rules:
- The first wait, after EOF on stdin, is one second and no more. Agents that exit on EOF save their state first and need
  a tenth of a second for it, more on a busy machine; several never exit on it.
- Every signal goes to the group. Some agents ignore SIGTERM when only their own pid gets it; SIGTERM to the whole group
  gave a clean exit of every real agent measured.
- An `Exit` has facts only. The transport judges them; exit code 0 does not mean a clean end.
"""

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


@dataclass(frozen=True, slots=True)
class StopStep:
    ending: Ending
    """What this step does, named by the ending that it leads to."""
    wait: float


@dataclass(frozen=True, slots=True)
class StopDeadlines:
    """Seconds for each step. Zero skips the step; the last one cannot be skipped."""

    eof: float = 1.0
    terminate: float = 3.0
    kill: float = 5.0
    sweep_grace: float = 0.5
    """For descendants that outlived the process: the time between their SIGTERM and their SIGKILL."""

    def steps(self) -> tuple[StopStep, ...]:
        polite = (StopStep(Ending.ON_EOF, self.eof), StopStep(Ending.ON_TERMINATE, self.terminate))
        return (*(step for step in polite if step.wait > 0), StopStep(Ending.ON_KILL, self.kill))


def _name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else str(number)
