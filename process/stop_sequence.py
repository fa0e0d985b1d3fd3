"""The stop ladder as a value: what to do, and how long to wait for the exit before the next rung.

Those that leave on stdin EOF save what they have first and need a tenth of a second for it, more on a busy machine.
Several never leave on it, and some ignore SIGTERM when only their own pid gets it; a SIGTERM to the whole group was
clean for every real agent measured. So the first wait is a second and no more, and every signal goes to the group.
"""

from dataclasses import dataclass

from ostler.process.exit import Ending


@dataclass(frozen=True, slots=True)
class StopStep:
    ending: Ending
    """What is done on this rung, by the name of the ending that it leads to."""
    wait: float


@dataclass(frozen=True, slots=True)
class StopDeadlines:
    """Seconds for each rung. Zero skips the rung; the last one cannot be skipped."""

    eof: float = 1.0
    terminate: float = 3.0
    kill: float = 5.0
    sweep_grace: float = 0.5
    """For descendants that outlived the process: between their SIGTERM and their SIGKILL."""

    def rungs(self) -> tuple[StopStep, ...]:
        polite = (StopStep(Ending.ON_EOF, self.eof), StopStep(Ending.ON_TERMINATE, self.terminate))
        return (*(rung for rung in polite if rung.wait > 0), StopStep(Ending.ON_KILL, self.kill))
