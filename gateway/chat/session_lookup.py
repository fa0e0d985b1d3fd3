"""Resolves the session that a user means: a number of the last list, an id, a title, or a prefix of an id.

Rules:
- Only sessions within the caller's `scope` are visible. A session outside it gets the same answer as one that does not
  exist, so that users cannot find out what others talk about.
- A bare number is a position in the list; a title that is a number must be quoted.
- An id wins over a title, a title over a prefix of an id. A title means its newest continuation.
- A compressed session resolves to its live continuation.
- A lookup changes nothing, whether it succeeds or not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model.errors import RequestRefused
from ostler.gateway.model.records import SessionQuery, SessionRecord
from ostler.gateway.model.store import Store

MOST_SIMILAR = 1_000
PAIRS = ('""', "''", "[]", "<>", "()", "“”", "«»", "„“", "‘’")
LONGEST_NUMBER = 9


class NoSuchTarget(RequestRefused):
    """The words match no session, or several."""


@dataclass(frozen=True, slots=True)
class TypedWords:
    """The argument of the command."""

    text: str
    quoted: bool = False

    @property
    def number(self) -> int | None:
        """The position in the list that the words mean, if they are a number."""
        bare = self.text.removeprefix("-").removeprefix("#")
        if self.quoted or not (bare.isascii() and bare.isdigit()):
            return None
        number = int(bare[:LONGEST_NUMBER])
        return -number if self.text.startswith("-") else number


def words_of(typed: str) -> TypedWords:
    """Normalise white space, and remove quotes or brackets around the whole argument."""
    text = " ".join(typed.split())
    for pair in PAIRS:
        if len(text) >= 2 and text[0] == pair[0] and text[-1] == pair[1]:
            return TypedWords(text[1:-1].strip(), quoted=True)
    return TypedWords(text)


async def aimed(store: Store, words: TypedWords, scope: SessionQuery, listed: Sequence[str]) -> SessionRecord:
    """The session that the words mean, at its live end; or `NoSuchTarget`."""
    found = await _named(store, words, scope, listed)
    end = await store.live_end(found.id) or found
    return end if within(end, scope) else found


def within(session: SessionRecord, scope: SessionQuery) -> bool:
    """Whether the session is within the caller's scope."""
    facts = ((scope.platform, session.platform), (scope.owner, session.owner), (scope.chat, session.chat))
    return all(wanted is None or wanted == given for wanted, given in facts)


async def _named(store: Store, words: TypedWords, scope: SessionQuery, listed: Sequence[str]) -> SessionRecord:
    if words.number is not None:
        return await _numbered(store, words.number, scope, listed)
    exact = await store.get_session(words.text)
    if exact is not None and within(exact, scope):
        return exact
    titled = await store.find_title(words.text, scope)
    if titled is not None:
        return titled
    return await _begun(store, words.text, scope)


async def _numbered(store: Store, number: int, scope: SessionQuery, listed: Sequence[str]) -> SessionRecord:
    if not 1 <= number <= len(listed):
        shown = f"the list has 1 to {len(listed)}" if listed else "the list is empty"
        raise NoSuchTarget(f"{number} is out of range: {shown}. /resume alone shows it.")
    session = await store.get_session(listed[number - 1])
    if session is None or not within(session, scope):
        raise NoSuchTarget(f"Session {number} of the list is gone. /resume alone shows what is there.")
    return session


async def _begun(store: Store, beginning: str, scope: SessionQuery) -> SessionRecord:
    similar = await store.sessions_by_prefix(beginning, limit=MOST_SIMILAR) if beginning else []
    seen = [session for session in similar if within(session, scope)]
    if not seen:
        raise NoSuchTarget(f"No session of yours is called {beginning[:100]!r}. /resume alone lists them.")
    if len(seen) > 1:
        some = ", ".join(session.id for session in seen[:3])
        raise NoSuchTarget(
            f"{beginning[:100]!r} is the beginning of {len(seen)} sessions ({some}, ...): type more of it."
        )
    return seen[0]
