"""What an agent repeats of a conversation while it loads it, and whether what was said last is among it.

Why: an agent whose record could not be written - a full disk, a kill in between - loads what it has and says nothing of
what it lacks. Nobody but the user would notice that the last turns are forgotten.

Rules: pure, and of bounded memory.
- Looked for is the end of the last prompt that had words and came to a good end, in the last thing that the user is
  said to have said; and behind it a word or a tool call, if there was one. Prompts without words and those that were
  cancelled or failed may stand behind it: some agents keep them, and some add a note of their own.
- Agents repeat word for word, block by block, joined or in pieces, with blanks of their own: blanks do not count. A
  short text must be a whole piece, a whole question or the last line of a piece: "ok" is found in every other sentence.
  Beside an image or a document it may stand anywhere: what agents make of those is theirs.
- Behind what may be a command of the agent's own (`/compact`) nothing can be looked for: it rewrites what it repeats.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from re import Pattern

from ostler.pool.events import AgentEvent, Other, Text, ToolStarted, UserText
from ostler.pool.order import LastTexts
from ostler.pool.prompt import PromptPart, TextPart

WORDS = frozenset({Text, ToolStarted})
"""What every agent repeats of an answer."""
END = 256
"""Characters of a prompt that are looked for."""
SHORT = 32
REACH = 256 * 1024
"""Characters of a piece that are looked at, from its end: it may have ten megabytes, and this runs on the loop."""
COMMAND = re.compile(r"\s*/[\w:.-]+(\s|$)")
NOTES = 2
"""Things that an agent may have the user say for a prompt that came to no good end: the prompt, and a note."""


def end_of(parts: Sequence[PromptPart]) -> str:
    """What an agent that repeats this prompt says last of it; nothing where it has no words."""
    texts = [part.text for part in parts if type(part) is TextPart]
    if len(texts) < len(parts):
        # What stands between two texts, an agent tells in its own way.
        texts = [text for text in texts if text.strip()][-1:]
    text, reach = "".join(text[-REACH:] for text in texts), END
    while len(end := squeezed(text, reach)) < END and reach < min(len(text), REACH):
        reach *= 4
    return end[-END:]


def is_command(parts: Sequence[PromptPart]) -> bool:
    """Whether a part of it may be a command of the agent's own; a path of several parts is none."""
    return any(type(part) is TextPart and COMMAND.match(part.text) for part in parts)


def squeezed(text: str, most: int) -> str:
    """Its last characters, without blanks."""
    return "".join(text[-most:].split())


class LastPrompt:
    """What was said last in a session that is in use."""

    __slots__ = ("_asked", "said", "wordless")

    def __init__(self, said: LastTexts) -> None:
        self.said = said
        self._asked: LastTexts | None = None
        """What is to be looked for from the end of this turn on; None: what was to be looked for before."""
        self.wordless = True
        """No word of an answer has come yet."""

    def ask(self, parts: Sequence[PromptPart]) -> None:
        """A prompt was sent."""
        self.wordless, self._asked = True, None
        if is_command(parts):
            self._asked = LastTexts()
        elif end := end_of(parts):
            self._asked = LastTexts(end, all(type(part) is TextPart for part in parts))

    def end(self, *, well: bool) -> None:
        """Its turn is over."""
        if well and self._asked is not None:
            self.said = replace(self._asked, answered=not self.wordless)
        else:
            self.said = replace(self.said, since=self.said.since + 1)


class ReplayCheck:
    """One load's."""

    __slots__ = ("_answered", "_asking", "_behind", "_noise", "_run", "_said", "recalled")

    def __init__(self, said: LastTexts, noise: Pattern[str] | None) -> None:
        """`noise` matches what the agent says in the user's name."""
        self.recalled = 0
        """Events of the conversation."""
        self._said = said
        self._noise = noise
        self._asking = False
        self._run = ""
        """The end of what the user says at present."""
        self._behind: int | None = None
        """How often the user speaks behind what is looked for; None before it was found."""
        self._answered = False

    @property
    def holds(self) -> bool:
        """Whether what was said last is there. Where nothing at all was repeated, nothing was found."""
        said = self._said
        if not self.recalled or not said.end:
            return self.recalled > 0
        found = self._behind is not None and self._behind <= NOTES * said.since
        return found and (self._answered or not said.answered)

    def record(self, event: AgentEvent) -> None:
        """The next event."""
        if type(event) is UserText:
            if self._noise is None or not self._noise.match(event.text):
                self.recalled += 1
                self._ask(event.text)
        elif type(event) is not Other:
            self.recalled += 1
            self._asking = False
            self._answered = self._answered or (self._behind == 0 and type(event) in WORDS)

    def _ask(self, text: str) -> None:
        if not self._asking:
            self._asking, self._run = True, ""
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
