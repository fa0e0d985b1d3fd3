"""Find sessions that can no longer be reached, and erase sessions.

Rules:
- A session without a key is reached through a slug, a child, a waiting call or a response. A response that was made for
  a slug leads to its session through that slug: once the slug is deleted or moved, the response counts for a while
  only.
- Erasing a session also erases the sessions that hold copies of its text: every child, and what it was compressed from.
- SQLite overwrites deleted text in the file (`connection.py`). Copies in the log go when the writer empties the log.
- The full-text index keeps single words of deleted text until it merges its segments. Erasing forces the merge, in
  steps, because each step holds the lock: in one step it takes 0.8 s for 100,000 messages, and deleting word by word
  takes 7 ms per message. After pruning, the merge is done once a day.
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
"""No key, slug or child leads to the session: nothing can ask for its history."""
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
    """Selects sessions: last active before `before`, not in `besides` (those the process holds), at most `limit`."""

    before: float
    besides: str
    limit: int
    kind: "Kind"
    among: Sequence[str] | None = None
    """Only these sessions. A reader searches the whole table; the writer then checks what it found again, in the
    transaction that changes it."""


class Kind(Enum):
    """Which sessions are selected: which responses count as leading to a session, and a further condition."""

    ALIVE = ("", "AND s.ended_at IS NULL")
    UNSTORED = ("", f"AND s.metadata ->> '$.{UNSTORED}' = 0")
    """Sessions whose client asked for `store: false`."""
    LEFT = ("AND r.slug IS NULL", "")
    """Includes ended sessions, and sessions led to only by responses of a slug that was deleted or moved."""


def unreachable(db: Connection, idle: Idle) -> list[str]:
    """The ids of the selected sessions that nothing leads to."""
    kept, which = idle.kind.value
    source = AMONG_ALL if idle.among is None else AMONG_THESE
    values: list[object] = [idle.before, idle.besides, idle.limit]
    if idle.among is not None:
        values.append(write_json(list(idle.among)))
    sql = UNREACHABLE.format(source=source, kept=kept, which=which)
    return [str(row[0]) for row in all_rows(db, sql, values)]


def end_unreachable(db: Connection, idle: Idle, reason: str, now: float) -> list[str]:
    """End the selected sessions; return the ids of those that this call ended."""
    return [session_id for session_id in unreachable(db, idle) if sessions.end(db, session_id, reason, now)]


def prune_unreachable(db: Connection, idle: Idle) -> list[str]:
    """Delete the selected sessions; return their ids."""
    found = unreachable(db, idle)
    delete(db, found)
    return found


def doomed(db: Connection, session_ids: Sequence[str]) -> list[str]:
    """The ids of all sessions that erasing these would remove, including these."""
    return [str(row[0]) for row in all_rows(db, DOOMED, (write_json(list(session_ids)),))]


def erase(db: Connection, session_ids: Sequence[str]) -> list[str]:
    """Erase these sessions and their copies; return the ids of all that were removed."""
    gone = doomed(db, session_ids)
    delete(db, gone)
    return gone


def delete(db: Connection, session_ids: Sequence[str]) -> None:
    """Delete exactly these sessions and all their rows."""
    for session_id in session_ids:
        for table in OF_SESSION:
            run(db, f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
        run(db, REPEATED, (session_id,))
        run(db, "DELETE FROM sessions WHERE id = ?", (session_id,))


def erase_owner(db: Connection, owner: str) -> None:
    """Delete what an owner has besides sessions."""
    for table in ("responses", "conversations", "idempotency"):
        run(db, f"DELETE FROM {table} WHERE owner = ?", (owner,))


def merge_words(db: Connection, pages: int) -> bool:
    """Do one step of merging the full-text index, which removes words of deleted text; return whether a step remains.

    The first step of a merge takes a negative number of pages.
    """
    before = db.total_changes()
    run(db, "INSERT INTO message_words (message_words, rank) VALUES ('merge', ?)", (pages,))
    return db.total_changes() - before >= 2
