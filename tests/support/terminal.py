"""`ostler chat` in a real terminal: a pseudo-terminal, a keyboard, and a screen that is read as text.

It is a copy that skips the imports (`copies.py`), where nobody asks for a `whole` start.
"""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import copies
from tests.support.copies import Copy

RIGHT = re.compile(r"\x1b\[([0-9]*)C")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]|\r")
WHERE_IS_THE_CURSOR, HERE = b"\x1b[6n", b"\x1b[24;1R"
ENTER, NEW_LINE, TAB, CTRL_C, CTRL_D, UP = b"\r", b"\x1b\r", b"\t", b"\x03", b"\x04", b"\x1b[A"
# Ctrl-C reaches those whose controlling terminal it is; a session leader has to ask for it.
IN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
PATIENCE = 300.0


def chat_words(folder: Path, *arguments: str) -> list[str]:
    """The command."""
    return ["chat", "--data-dir", str(folder / "data"), *arguments]


def chat_line(folder: Path, *arguments: str) -> list[str]:
    """The command, with a fresh interpreter."""
    return [*copies.FRESH, *chat_words(folder, *arguments)]


def environment(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Nothing of the tester's but the path."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm", "LANG": "C.UTF-8", **given}


def script(folder: Path, *arguments: str, stdin: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run it without a terminal."""
    return copies.run(chat_words(folder, *arguments), cwd=folder, env=environment(folder, environ), given=stdin)


@dataclass
class Terminal:
    """A program in a terminal."""

    process: "subprocess.Popen[bytes] | Copy"
    file: int
    raw: bytearray = field(default_factory=bytearray)
    _read: int = 0
    """How much of the screen earlier waits have used up."""

    @property
    def screen(self) -> str:
        """Everything that was ever shown, without what a terminal obeys."""
        moved = RIGHT.sub(lambda found: " " * int(found[1] or 1), self.raw.decode(errors="replace"))
        return CONTROL.sub("", moved)

    def press(self, *keys: str | bytes) -> None:
        """Type."""
        for key in keys:
            os.write(self.file, key.encode() if isinstance(key, str) else key)

    def say(self, text: str) -> None:
        """Type a line."""
        self.press(text, ENTER)

    def until(self, text: str) -> str:
        """Wait for this behind what was waited for before; what was shown up to there."""
        deadline = time.monotonic() + PATIENCE
        while (place := self.screen.find(text, self._read)) < 0:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} is not shown: {self.screen[self._read :]!r}"
            self._look(left)
        shown = self.screen[self._read : place]
        self._read = place + len(text)
        return shown

    def ends(self) -> int:
        """The exit code of a program that ends by itself."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on: {self.screen[-500:]!r}"
            self._look(0.1)
        return int(self.process.returncode)

    def _look(self, seconds: float) -> None:
        ready, _, _ = select.select([self.file], [], [], seconds)
        if not ready:
            return
        try:
            piece = os.read(self.file, 65_536)
        except OSError:  # the other end is closed, which Linux says with EIO
            piece = b""
        self.raw += piece
        for _ in range(piece.count(WHERE_IS_THE_CURSOR)):
            os.write(self.file, HERE)


def begun(
    folder: Path, arguments: Sequence[str], environ: Mapping[str, str], tty: int, *, whole: bool
) -> "subprocess.Popen[bytes] | Copy":
    """Started, with all its streams on this terminal."""
    env = environment(folder, environ)
    if not whole:
        words = chat_words(folder, *arguments)
        return Copy(words, cwd=folder, env=env, stdin=tty, stdout=tty, stderr=tty, in_terminal=True)
    line = [sys.executable, "-c", IN_TERMINAL, *chat_line(folder, *arguments)]
    return subprocess.Popen(line, cwd=folder, env=env, stdin=tty, stdout=tty, stderr=tty, start_new_session=True)


@contextmanager
def terminal(folder: Path, *arguments: str, whole: bool = False, **environ: str) -> Iterator[Terminal]:
    """`ostler chat` in a terminal of 24 lines and 120 columns, ended at the end."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    process = begun(folder, arguments, environ, theirs, whole=whole)
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(ours)
