"""What may stand in a label: a bounded number of short words, whatever clients send.

Rules: words that were announced always have their place. Of the rest the first few get one; all others, and whatever is
too long or not printable, are `other`. A word once given is given for ever, so a series never changes its name.
"""

from collections.abc import Iterable

OTHER = "other"
LONGEST = 80


class LabelWords:
    """The values of one label name."""

    __slots__ = ("_known", "_most")

    def __init__(self, most: int) -> None:
        self._known: set[str] = set()
        self._most = most

    def announce(self, words: Iterable[str]) -> None:
        """These are configured: they have their place before anybody comes."""
        fresh = {word for word in words if fit(word)} - self._known
        self._known |= fresh
        self._most += len(fresh)

    def word(self, given: str) -> str:
        """The value to use."""
        if given in self._known:
            return given
        if len(self._known) >= self._most or not fit(given):
            return OTHER
        self._known.add(given)
        return given


def fit(word: str) -> bool:
    """Whether it may be a label value at all."""
    return len(word) <= LONGEST and (not word or word.isprintable())
