"""Full-text search over everything that was said and not undone.

The newest come first, because the index gives them in that order without looking at the rest: a word that everybody
uses costs no more than a rare one.
"""

import re

from ostler.gateway.records import SearchHit, SessionQuery
from ostler.gateway.stores.sqlite.connection import Connection, all_rows
from ostler.gateway.stores.sqlite.sessions import conditions

SNIPPET_WORDS = 16
MOST_WORDS = 32
WORD = re.compile(r"\w+")


def search(db: Connection, words: str, query: SessionQuery, limit: int) -> list[SearchHit]:
    wanted = pattern(words)
    if not wanted:
        return []
    where, values = conditions(query)
    sql = (
        f"SELECT m.session_id, s.title, m.id, m.role, snippet(message_words, 0, '[', ']', '…', {SNIPPET_WORDS}), "
        "m.created_at FROM message_words w CROSS JOIN messages m ON m.id = w.rowid "
        f"CROSS JOIN sessions s ON s.id = m.session_id WHERE message_words MATCH ? AND {where} "
        "ORDER BY w.rowid DESC LIMIT ?"
    )
    return [SearchHit(*row) for row in all_rows(db, sql, (wanted, *values, limit))]


def pattern(words: str) -> str:
    """What the index is asked: every word as it stands, so that none is an operator, and the last as a beginning."""
    found = WORD.findall(words)[:MOST_WORDS]
    return " ".join(f'"{word}"' for word in found) + "*" if found else ""
