"""Full-text search over everything that was said and not undone.

Rules:
- The newest come first, because the index gives them in that order without looking at the rest: a word that everybody
  uses costs no more than a rare one.
- The last word may be a beginning. That is asked only where whole words find too little: for a beginning the index has
  to bring together all that any of its words has.
- Every word is quoted: none is an operator of the index.
"""

import re

from ostler.gateway.model.records import SearchHit, SessionQuery
from ostler.gateway.stores.sqlite.connection import Connection, all_rows
from ostler.gateway.stores.sqlite.sessions import conditions

SNIPPET_WORDS = 16
MOST_WORDS = 32
WORD = re.compile(r"\w+")


def search(db: Connection, words: str, query: SessionQuery, limit: int) -> list[SearchHit]:
    found = WORD.findall(words)[:MOST_WORDS]
    if not found:
        return []
    wanted = " ".join(f'"{word}"' for word in found)
    whole = _matching(db, wanted, query, limit)
    return whole if len(whole) >= limit else _matching(db, wanted + "*", query, limit)


def _matching(db: Connection, wanted: str, query: SessionQuery, limit: int) -> list[SearchHit]:
    where, values = conditions(query)
    sql = (
        f"SELECT m.session_id, s.title, m.id, m.role, snippet(message_words, 0, '[', ']', '…', {SNIPPET_WORDS}), "
        "m.created_at FROM message_words w CROSS JOIN messages m ON m.id = w.rowid "
        f"CROSS JOIN sessions s ON s.id = m.session_id WHERE message_words MATCH ? AND {where} "
        "ORDER BY w.rowid DESC LIMIT ?"
    )
    return [SearchHit(*row) for row in all_rows(db, sql, (wanted, *values, limit))]
