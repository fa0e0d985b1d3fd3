"""Titles and their lineages: "P", "P #2", "P #10" are one conversation, continued.

A lineage is a range of the index on titles, from "P #" up to "P $" ("$" follows "#"). No pattern is used: `%` and `_`
in a title are ordinary characters. Titles belong to an owner: those of other owners are neither taken nor found.
"""

from ostler.gateway.model.errors import TitleTaken
from ostler.gateway.model.records import SessionQuery, SessionRecord, split_title
from ostler.gateway.stores.sqlite.connection import Connection, all_rows, one_row, run
from ostler.gateway.stores.sqlite.sessions import COLUMNS, conditions, of_rows, require

LINEAGE = "(s.title = ? OR (s.title >= ? AND s.title < ?))"


def set_title(db: Connection, session_id: str, title: str) -> SessionRecord:
    owner = require(db, session_id).owner
    holder = holder_of(db, title, owner)
    if holder not in {None, session_id}:
        raise TitleTaken(title, str(holder))
    run(db, "UPDATE sessions SET title = ? WHERE id = ?", (title, session_id))
    return require(db, session_id)


def holder_of(db: Connection, title: str, owner: str | None) -> str | None:
    sql = "SELECT id FROM sessions WHERE title = ? AND ifnull(owner, '') = ?"
    row = one_row(db, sql, (title, owner or ""))
    return None if row is None else str(row[0])


def next_title(db: Connection, title: str, owner: str | None) -> str:
    base, _ = split_title(title)
    sql = f"SELECT s.title FROM sessions s WHERE {LINEAGE} AND ifnull(s.owner, '') = ?"
    taken = [split_title(row[0]) for row in all_rows(db, sql, (*lineage(base), owner or ""))]
    newest = max((number for name, number in taken if name == base), default=0)
    return f"{base} #{newest + 1}" if newest else title


def find_title(db: Connection, title: str, query: SessionQuery) -> SessionRecord | None:
    where, values = conditions(query)
    sql = f"SELECT {COLUMNS} FROM sessions s WHERE {LINEAGE} AND {where}"
    found = of_rows(all_rows(db, sql, (*lineage(title), *values)))
    own = [session for session in found if session.title == title or split_title(session.title or "")[0] == title]
    return max(own, key=lambda session: split_title(session.title or "")[1], default=None)


def lineage(base: str) -> tuple[str, str, str]:
    return base, f"{base} #", f"{base} $"
