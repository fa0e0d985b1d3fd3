"""Checks whether a conversation that an agent replays during a load contains what was said last.

Why: an agent whose record could not be written (a full disk, a kill in between) loads what it has and does not report
what is missing. Only the user would notice that the last turns are forgotten.

Rules: pure, and of bounded memory.
- The check looks for the end of the last prompt that contained text and ended well, in the last thing that the replay
  attributes to the user; and after it for a text or a tool call, if there was one. Prompts without text and prompts
  that were cancelled or failed may follow it: some agents keep them, and some add a note of their own.
- Agents repeat word for word, block by block, joined or in pieces, with whitespace of their own: whitespace is ignored.
  A short text must be a whole piece, a whole prompt or the last line of a piece, because "ok" occurs in every other
  sentence. Next to an image or a document it may occur anywhere: agents render those in their own way.
- After a possible command of the agent's own (`/compact`) nothing is checked: the agent rewrites what it repeats.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from re import Pattern

from ostler.pool.events import AgentEvent, Other, Text, ToolStarted, UserText
from ostler.pool.order import LastTexts
from ostler.pool.prompt import PromptPart, TextPart

WORDS = frozenset({Text, ToolStarted})
"""The events of an answer that every agent repeats."""
END = 256
"""Characters at the end of a prompt that are searched for."""
SHORT = 32
REACH = 256 * 1024
"""Characters at the end of a piece that are examined: it may have ten megabytes, and this runs on the event loop."""
COMMAND = re.compile(r"\s*/[\w:.-]+(\s|$)")
NOTES = 2
"""User messages that an agent may replay for a prompt that did not end well: the prompt, and a note."""


def end_of(parts: Sequence[PromptPart]) -> str:
    """The last characters an agent repeats of this prompt, without whitespace; "" for a prompt without text."""
    texts = [part.text for part in parts if type(part) is TextPart]
    if len(texts) < len(parts):
        # Agents render the parts between two texts in their own way, so only the last text counts.
        texts = [text for text in texts if text.strip()][-1:]
    text, length = "".join(text[-REACH:] for text in texts), END
    while len(end := squeezed(text, length)) < END and length < min(len(text), REACH):
        length *= 4
    return end[-END:]


def is_command(parts: Sequence[PromptPart]) -> bool:
    """Whether a part may be a command of the agent's own; a path of several segments is not."""
    return any(type(part) is TextPart and COMMAND.match(part.text) for part in parts)


def squeezed(text: str, most: int) -> str:
    """Its last `most` characters, without whitespace."""
    return "".join(text[-most:].split())


class LastPrompt:
    """Tracks, for a session in use, what a later load must find in the replay."""

    __slots__ = ("_asked", "said")

    def __init__(self, said: LastTexts) -> None:
        self.said = said
        self._asked: LastTexts | None = None
        """The texts to search for if this turn ends well; None: keep the previous ones."""

    def ask(self, parts: Sequence[PromptPart]) -> None:
        """Note that this prompt was sent."""
        self._asked = None
        if is_command(parts):
            self._asked = LastTexts()
        elif end := end_of(parts):
            self._asked = LastTexts(end, all(type(part) is TextPart for part in parts))

    def end(self, *, well: bool, answered: bool) -> None:
        """Note that its turn is over; `well`: the agent has the prompt and its answer on record; `answered`: by a text
        or a tool call.
        """
        if well and self._asked is not None:
            self.said = replace(self._asked, answered=answered)
        else:
            self.said = replace(self.said, since=self.said.since + 1)


class ReplayCheck:
    """Examines the events of one load. Read `holds` when the replay is over."""

    __slots__ = ("_answered", "_behind", "_in_user_text", "_noise", "_run", "_said", "recalled")

    def __init__(self, said: LastTexts, noise: Pattern[str] | None) -> None:
        """`noise` matches texts that the agent writes in the user's name."""
        self.recalled = 0
        """Events of the conversation that the agent has repeated."""
        self._said = said
        self._noise = noise
        self._in_user_text = False
        self._run = ""
        """The end of the run of user texts that is being read."""
        self._behind: int | None = None
        """How many user messages follow the one searched for; None before it was found."""
        self._answered = False

    @property
    def holds(self) -> bool:
        """Whether the replay contains what was said last. False for an empty replay."""
        said = self._said
        if not self.recalled or not said.end:
            return self.recalled > 0
        found = self._behind is not None and self._behind <= NOTES * said.since
        return found and (self._answered or not said.answered)

    def record(self, event: AgentEvent) -> None:
        """Examine the next event of the replay."""
        if type(event) is UserText:
            if self._noise is None or not self._noise.match(event.text):
                self.recalled += 1
                self._ask(event.text)
        elif type(event) is not Other:
            self.recalled += 1
            self._in_user_text = False
            self._answered = self._answered or (self._behind == 0 and type(event) in WORDS)

    def _ask(self, text: str) -> None:
        if not self._in_user_text:
            self._in_user_text, self._run = True, ""
            self._behind = None if self._behind is None else self._behind + 1
        piece = squeezed(text, REACH)
        run, self._run = self._run + piece, (self._run + piece)[-2 * END :]
        if self._said.end and self._says(run, piece, text):
            self._behind, self._answered = 0, False

    def _says(self, run: str, piece: str, text: str) -> bool:
        end = self._said.end
        if len(end) >= SHORT or not self._said.alone:
            return end in run
        return end in (run, piece, squeezed(text[-REACH:].rstrip().rpartition("\n")[2], REACH))
