"""The signals of a service manager or a user, from the first moment of the process to the last.

Rules:
- A signal is recorded, never raised: an exception at an arbitrary point would break what is being opened. The code that
  runs checks `ending` where it can stop.
- SIGTERM and SIGINT mean: end. The second one ends the wait for running turns. SIGHUP means: read the keys again; if it
  comes before the keys are loaded, it takes effect as soon as they are.
- The handlers are Python functions, so agents do not inherit them. Agents would inherit an ignored signal.
"""

import asyncio
import signal
from collections.abc import Callable

ENDING = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """The signals of this process; create one instance only."""

    def __init__(self) -> None:
        self.ending = asyncio.Event()
        """Set by the first ending signal."""
        self.again = asyncio.Event()
        """Set by the second ending signal: do not wait for running turns."""
        self.reload_wanted = False
        """SIGHUP came before the keys could be reloaded."""
        self.at_end: Callable[[], None] | None = None
        """Called at the first ending signal, if the loop runs."""

    def install(self) -> None:
        """Install the handlers. Call this before anything is opened."""
        for number in ENDING:
            signal.signal(number, lambda *_: self.note_end())
        signal.signal(signal.SIGHUP, lambda *_: self.note_reload())

    def attach(self, reload: Callable[[], None] | None = None) -> None:
        """Let the running loop handle the signals from now on. `reload` is called for SIGHUP."""
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self.note_end)
        if reload is not None:
            loop.add_signal_handler(signal.SIGHUP, reload)
            if self.reload_wanted:
                reload()

    def note_reload(self) -> None:
        """Record a SIGHUP that came too early."""
        self.reload_wanted = True

    def note_end(self) -> None:
        """Record an ending signal."""
        if self.ending.is_set():
            self.again.set()
            return
        self.ending.set()
        if self.at_end is not None:
            self.at_end()
