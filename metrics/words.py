"""Label values: a bounded number of short words, independent of what clients send.

Rules: announced words are always accepted. Of all others the first `most` are accepted; the rest, and any word that is
too long or not printable, become `other`. An accepted word stays accepted, so a series never changes its name.
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
        """Accept these configured words before any client can use up the limit."""
        fresh = {word for word in words if fit(word)} - self._known
        self._known |= fresh
        self._most += len(fresh)

    def word(self, given: str) -> str:
        """The label value for this word: itself or `other`."""
        if given in self._known:
            return given
        if len(self._known) >= self._most or not fit(given):
            return OTHER
        self._known.add(given)
        return given


def fit(word: str) -> bool:
    """Whether it may be a label value at all."""
    return len(word) <= LONGEST and (not word or word.isprintable())
