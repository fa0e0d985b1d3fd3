"""Full-text search over all messages that were not undone.

Rules:
- The newest hits come first, because the index yields them in that order without reading the rest: a common word costs
  no more than a rare one.
- The last word may be a prefix. Prefixes are searched only if whole words find too few messages: for a prefix, the
  index must merge the hits of every word that begins with it.
- Every word is quoted, so that none acts as an operator of the index.
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
