"""Words that belong to one conversation: wherever one of another conversation turns up, something has leaked.

Rules: pure. A word names its conversation, its turn and its part (a question, the arguments of a tool call, the result
of one), and says where it ends, so that the word of turn 1 is not found in that of turn 12.
"""

import re

WORD = re.compile(r"canary-(\d+)-(\d+)-([qar])-end")
QUESTION, ARGUMENT, RESULT = "q", "a", "r"


def word(conversation: int, turn: int, part: str) -> str:
    """The one of this place."""
    return f"canary-{conversation}-{turn}-{part}-end"


def owners(text: str) -> set[int]:
    """The conversations whose words stand there."""
    return {int(found[1]) for found in WORD.finditer(text)}


def turns(text: str, part: str) -> list[int]:
    """The turns whose words of this part stand there, in order."""
    return [int(found[2]) for found in WORD.finditer(text) if found[3] == part]
