"""Writes to the terminal: answers on stdout, everything else on stderr.

Rules:
- Text from an agent never controls the terminal: control characters are removed, including those that begin an escape
  sequence.
- Colours are used only on a terminal; a pipe gets nothing but the answers on stdout.
"""

from dataclasses import dataclass
from typing import TextIO
from unicodedata import category

DIM, PLAIN = "\x1b[2m", "\x1b[0m"
SHOWN = frozenset("\n\t\u200c\u200d")
"""White space, and the zero-width joiners that several scripts and many emoji need."""
OBEYED = frozenset({"Cc", "Cf", "Cs"})
"""Unicode categories that a terminal may act on: controls, marks for the direction of writing, lone surrogates."""
LONGEST_ACTIVITY = 200


def harmless(text: str) -> str:
    """The text without characters that a terminal acts on."""
    if text.isprintable():
        return text
    return "".join(char for char in text if char in SHOWN or category(char) not in OBEYED)


@dataclass
class Screen:
    """The output of one run, with or without a terminal."""

    out: TextIO
    err: TextIO
    _at_start: bool = True
    """Whether the next character of the answer begins a line."""

    @property
    def watched(self) -> bool:
        """Whether answers go to a terminal."""
        return self.out.isatty()

    def say(self, text: str) -> None:
        """Write a piece of an answer."""
        text = harmless(text)
        if text:
            self.out.write(text)
            self.out.flush()
            self._at_start = text.endswith("\n")

    def end_line(self) -> None:
        """End the line of the answer, if it is not ended."""
        if not self._at_start:
            self.say("\n")

    def activity(self, text: str) -> None:
        """Show what the agent does besides answering; only on a terminal."""
        if not self.watched:
            return
        self.end_line()
        line = " ".join(harmless(text).split())[:LONGEST_ACTIVITY]
        self.out.write(f"{DIM}· {line}{PLAIN}\n")
        self.out.flush()

    def notice(self, text: str) -> None:
        """Show a message of the gateway or of this program on stderr; it leaves no trace in an answer that a pipe
        gets."""
        if self.watched:
            self.end_line()
        text = harmless(text)
        self.err.write(f"{DIM}{text}{PLAIN}\n" if self.err.isatty() else f"{text}\n")
        self.err.flush()
