"""Which session a person means: a number of the list they were shown, an id, a title, the beginning of an id.

Rules:
- Only sessions within the caller's `scope` exist here. One of somebody else gets the same answer as none at all, so
  that nobody can find out what others talk about.
- A bare number is a place in the list; a title that is a number is meant when it stands in quotes.
- An id beats a title, a title the beginning of an id. A title stands for its newest continuation.
- A session that was compressed is resumed where it lives on.
- Nothing here changes anything: an aim that fails has cost nothing.
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
    """The words lead to no session, or to several."""


@dataclass(frozen=True, slots=True)
class TypedWords:
    """What was typed behind the command."""

    text: str
    quoted: bool = False

    @property
    def number(self) -> int | None:
        """The place in a list that is meant."""
        bare = self.text.removeprefix("-").removeprefix("#")
        if self.quoted or not (bare.isascii() and bare.isdigit()):
            return None
        number = int(bare[:LONGEST_NUMBER])
        return -number if self.text.startswith("-") else number


def words_of(typed: str) -> TypedWords:
    """Without the quotes or brackets around the whole of it."""
    text = " ".join(typed.split())
    for pair in PAIRS:
        if len(text) >= 2 and text[0] == pair[0] and text[-1] == pair[1]:
            return TypedWords(text[1:-1].strip(), quoted=True)
    return TypedWords(text)


async def aimed(store: Store, words: TypedWords, scope: SessionQuery, listed: Sequence[str]) -> SessionRecord:
    """The session that is meant, at its live end; or `NoSuchTarget`."""
    found = await _named(store, words, scope, listed)
    end = await store.live_end(found.id) or found
    return end if within(end, scope) else found


def within(session: SessionRecord, scope: SessionQuery) -> bool:
    """Whether the caller may see it."""
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
