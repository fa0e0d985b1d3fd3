"""What is shown, and where: answers on stdout, everything else on stderr.

Rules:
- What comes from an agent is text, never orders to the terminal: control characters are taken out, also those that an
  escape sequence begins with.
- Colours only where a person looks; a pipe gets the answers and nothing else on stdout.
"""

from dataclasses import dataclass
from typing import TextIO
from unicodedata import category

DIM, PLAIN = "\x1b[2m", "\x1b[0m"
SHOWN = frozenset("\n\t\u200c\u200d")
"""Joiners besides white space: without them several scripts, and many pictures, fall apart."""
OBEYED = frozenset({"Cc", "Cf", "Cs"})
"""What a terminal may act upon: controls, marks that turn the direction of writing, halves of characters."""
LONGEST_ACTIVITY = 200


def harmless(text: str) -> str:
    """The same text without anything a terminal obeys."""
    if text.isprintable():
        return text
    return "".join(char for char in text if char in SHOWN or category(char) not in OBEYED)


@dataclass
class Screen:
    """Of one terminal, or of none."""

    out: TextIO
    err: TextIO
    _at_start: bool = True
    """Whether the next character of an answer begins a line."""

    @property
    def watched(self) -> bool:
        """Whether a person looks at the answers."""
        return self.out.isatty()

    def say(self, text: str) -> None:
        """A piece of an answer."""
        text = harmless(text)
        if text:
            self.out.write(text)
            self.out.flush()
            self._at_start = text.endswith("\n")

    def end_line(self) -> None:
        """The answer is over."""
        if not self._at_start:
            self.say("\n")

    def activity(self, text: str) -> None:
        """What the agent does besides talking: for people only."""
        if not self.watched:
            return
        self.end_line()
        line = " ".join(harmless(text).split())[:LONGEST_ACTIVITY]
        self.out.write(f"{DIM}· {line}{PLAIN}\n")
        self.out.flush()

    def notice(self, text: str) -> None:
        """Something of the gateway or of ours, which is no answer, and leaves no mark in one that a pipe gets."""
        if self.watched:
            self.end_line()
        text = harmless(text)
        self.err.write(f"{DIM}{text}{PLAIN}\n" if self.err.isatty() else f"{text}\n")
        self.err.flush()
