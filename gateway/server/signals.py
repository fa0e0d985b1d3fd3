"""What a service manager or a person at the keyboard tells a gateway, from its first moment to its last.

Rules:
- A signal is noted and never raised: an exception from nowhere would tear whatever is being opened. Who runs looks at
  `told`, in places where it can end.
- SIGTERM and SIGINT mean: end. The second one ends the wait for running turns. SIGHUP means: read the keys again;
  one that comes before the keys are held is obeyed as soon as they are.
- The handlers are Python's, so agents do not inherit them; a signal that we ignored they would ignore for ever.
"""

import asyncio
import signal
from collections.abc import Callable

ENDING = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Of this process; one for each."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        """End."""
        self.again = asyncio.Event()
        """Do not wait for running turns."""
        self.reload_wanted = False
        """SIGHUP came before anybody could obey it."""
        self.at_end: Callable[[], None] | None = None
        """Called at the first signal, while the loop runs."""

    def install(self) -> None:
        """Before anything is made."""
        for number in ENDING:
            signal.signal(number, lambda *_: self.hear())
        signal.signal(signal.SIGHUP, lambda *_: self.note_reload())

    def attach(self, reload: Callable[[], None] | None = None) -> None:
        """From now on the running loop hears them; `reload` is called for SIGHUP."""
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self.hear)
        if reload is not None:
            loop.add_signal_handler(signal.SIGHUP, reload)
            if self.reload_wanted:
                reload()

    def note_reload(self) -> None:
        """SIGHUP, early."""
        self.reload_wanted = True

    def hear(self) -> None:
        """One of those that end us."""
        if self.told.is_set():
            self.again.set()
            return
        self.told.set()
        if self.at_end is not None:
            self.at_end()
