"""What an agent repeats of a conversation while it loads it, and whether what was said last is among it.

Why: an agent whose record could not be written - a full disk, a kill in between - loads what it has and says nothing of
what it lacks. Nobody but the user would notice that the last turns are forgotten.

Rules: pure. Agents repeat in pieces and with blanks of their own, so the end of the last prompt's last text is looked
for, without blanks, in what the user is said to have said last; of the answer it counts that there is one.
"""

from collections.abc import Sequence
from re import Pattern

from ostler.pool.events import Other, PermissionAsked, Text, Thought, ToolStarted, TurnEvent, UserText
from ostler.pool.order import SessionMemo
from ostler.pool.prompt import PromptPart, TextPart

ANSWERS = frozenset({Text, Thought, ToolStarted, PermissionAsked})
"""With these an answer begins; agents say other things before they have asked their model."""
END = 256
"""Characters of a prompt that are looked for."""
HELD = 16 * 1024
"""Characters of what is repeated that are held: what agents add behind a prompt is less."""


def end_of(parts: Sequence[PromptPart]) -> str:
    """What an agent that repeats this prompt will end with; nothing for a prompt without words."""
    texts = [part.text for part in parts if type(part) is TextPart]
    return squeezed(texts[-1], END * 4)[-END:] if texts else ""


def squeezed(text: str, most: int) -> str:
    """Its last characters, without blanks. A prompt may have ten megabytes, and this runs on the loop."""
    return "".join(text[-most:].split())


class Recital:
    """One load's."""

    __slots__ = ("_answered", "_noise", "_question", "recalled", "told")

    def __init__(self, noise: Pattern[str] | None) -> None:
        """`noise` matches what the agent says in the user's name."""
        self.told = 0
        """Events of any kind; what is still growing is not over."""
        self.recalled = 0
        """Events of the conversation."""
        self._noise = noise
        self._question = ""
        self._answered = False

    def hear(self, event: TurnEvent) -> None:
        """The next event."""
        self.told += 1
        kind = type(event)
        if kind is Other or (type(event) is UserText and self._noise is not None and self._noise.match(event.text)):
            return
        self.recalled += 1
        if type(event) is UserText:
            before = "" if self._answered else self._question
            self._question, self._answered = (before + squeezed(event.text, HELD))[-HELD:], False
        elif kind in ANSWERS:
            self._answered = True

    def holds(self, memo: SessionMemo) -> bool:
        """Whether what was said last is there. Where nothing at all was repeated, nothing was found."""
        return self.recalled > 0 and memo.said in self._question and (self._answered or not memo.answered)
