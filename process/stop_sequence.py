"""The stop sequence as a value: what to do, and how long to wait for the exit before the next step.

Rules:
- The first wait, after EOF on stdin, is one second and no more. Agents that exit on EOF save their state first and need
  a tenth of a second for it, more on a busy machine; several never exit on it.
- Every signal goes to the group. Some agents ignore SIGTERM when only their own pid gets it; SIGTERM to the whole group
  gave a clean exit of every real agent measured.
"""

from dataclasses import dataclass

from ostler.process.exit import Ending


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
