"""What leads nowhere, and what is to be erased.

Rules:
- A session without a key is led to by a slug, by a child, by a call that waits, or by a response. A response that was
  made for a slug leads to its session by that slug: once the slug is gone or has moved, it does so only for a while.
- Erasing takes with a session those that hold copies of its text: every child, and what it was compressed from.
- Deleted text is overwritten by SQLite (`connection.py`). What the log holds of it goes when the log is emptied, which
  is the writer's affair.
- The index of words keeps single words of what was deleted until it merges its parts. Erasing makes it do so, step by
  step, for each step holds the lock: at once it is 0.8 s for 100,000 messages, and deleting word by word is 7 ms for
  each message. After pruning it is done once a day.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ostler.gateway.model.records import UNSTORED
from ostler.gateway.stores.sqlite import sessions
from ostler.gateway.stores.sqlite.connection import Connection, all_rows, run
from ostler.gateway.stores.sqlite.json import write_json

LED_TO = (
    "NOT EXISTS (SELECT 1 FROM routing r WHERE r.session_id = s.id) "
    "AND NOT EXISTS (SELECT 1 FROM conversations c WHERE c.session_id = s.id) "
    "AND NOT EXISTS (SELECT 1 FROM sessions c WHERE c.parent_id = s.id)"
)
"""Nothing that a key, a slug or a child leads to: its history may be asked for."""
ASKED_FOR = (
    "NOT EXISTS (SELECT 1 FROM responses r WHERE r.session_id = s.id {kept}) "
    "AND NOT EXISTS (SELECT 1 FROM parked_calls p WHERE p.session_id = s.id AND p.state = 'waiting')"
)
UNREACHABLE = (
    f"SELECT s.id FROM {{source}} WHERE s.key IS NULL AND s.last_active_at < ?1 AND {LED_TO} AND {ASKED_FOR} "
    "AND s.id NOT IN (SELECT value FROM json_each(?2)) {which} ORDER BY s.last_active_at, s.seq LIMIT ?3"
)
AMONG_ALL = "sessions s"
AMONG_THESE = "json_each(?4) these CROSS JOIN sessions s ON s.id = these.value"
DOOMED = """
WITH RECURSIVE doomed (id) AS (
    SELECT s.id FROM sessions s JOIN json_each(?) named ON s.id = named.value
    UNION SELECT child.id FROM sessions child JOIN doomed ON child.parent_id = doomed.id
    UNION SELECT parent.id FROM sessions child JOIN doomed ON child.id = doomed.id
        JOIN sessions parent ON parent.id = child.parent_id WHERE child.origin = 'compression'
) SELECT id FROM doomed ORDER BY id
"""
OF_SESSION = ("messages", "responses", "parked_calls", "conversations", "routing")
REPEATED = "DELETE FROM idempotency WHERE instr(headers, ?)"


@dataclass(frozen=True, slots=True)
class Idle:
    """Which sessions are meant: last active before then, but for those that the process holds, and how many at most."""

    before: float
    besides: str
    limit: int
    kind: "Kind"
    among: Sequence[str] | None = None
    """Of these only. The whole table is looked through by a reader, and what it finds is looked at again by the writer,
    in the transaction that changes it."""


class Kind(Enum):
    """Which of them: how far responses lead to a session, and what else must be true of it."""

    ALIVE = ("", "AND s.ended_at IS NULL")
    UNSTORED = ("", f"AND s.metadata ->> '$.{UNSTORED}' = 0")
    """Its client asked that nothing be stored."""
    LEFT = ("AND r.slug IS NULL", "")
    """Also those that have ended, and those that only responses of a slug lead to that is gone or has moved."""


def unreachable(db: Connection, idle: Idle) -> list[str]:
    """Their ids."""
    kept, which = idle.kind.value
    source = AMONG_ALL if idle.among is None else AMONG_THESE
    values: list[object] = [idle.before, idle.besides, idle.limit]
    if idle.among is not None:
        values.append(write_json(list(idle.among)))
    sql = UNREACHABLE.format(source=source, kept=kept, which=which)
    return [str(row[0]) for row in all_rows(db, sql, values)]


def end_unreachable(db: Connection, idle: Idle, reason: str, now: float) -> list[str]:
    """Those that ended by this."""
    return [session_id for session_id in unreachable(db, idle) if sessions.end(db, session_id, reason, now)]


def prune_unreachable(db: Connection, idle: Idle) -> list[str]:
    """Those that are gone by this."""
    found = unreachable(db, idle)
    delete(db, found)
    return found


def doomed(db: Connection, session_ids: Sequence[str]) -> list[str]:
    """What goes with them, themselves included."""
    return [str(row[0]) for row in all_rows(db, DOOMED, (write_json(list(session_ids)),))]


def erase(db: Connection, session_ids: Sequence[str]) -> list[str]:
    """Those that are gone now, with all that is theirs."""
    gone = doomed(db, session_ids)
    delete(db, gone)
    return gone


def delete(db: Connection, session_ids: Sequence[str]) -> None:
    """Exactly these, with all that is theirs."""
    for session_id in session_ids:
        for table in OF_SESSION:
            run(db, f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
        run(db, REPEATED, (session_id,))
        run(db, "DELETE FROM sessions WHERE id = ?", (session_id,))


def erase_owner(db: Connection, owner: str) -> None:
    """What an owner has beside sessions."""
    for table in ("responses", "conversations", "idempotency"):
        run(db, f"DELETE FROM {table} WHERE owner = ?", (owner,))


def merge_words(db: Connection, pages: int) -> bool:
    """One step of making the index of words anew, so that no word of a text that is gone stands there; whether there
    is another step to take. The first one has a negative number of pages."""
    before = db.total_changes()
    run(db, "INSERT INTO message_words (message_words, rank) VALUES ('merge', ?)", (pages,))
    return db.total_changes() - before >= 2
