"""Responses, kept until more recently used ones need the space. Evicting a response touches no slug and no session."""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model.records import ResponseRecord
from ostler.gateway.stores.sqlite.connection import Connection, SqlRow, all_rows, one_row, run, value
from ostler.gateway.stores.sqlite.json import read_json, read_object, read_objects, write_json
from ostler.wire.json import JsonObject, Undecodable

COLUMNS = "id, session_id, owner, status, body, input_items, previous_response_id, slug, created_at"
NEXT_USE = "(SELECT ifnull(max(used), 0) + 1 FROM responses)"
SAVE = (
    f"INSERT INTO responses ({COLUMNS}, used, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, {NEXT_USE}, ?) "
    "ON CONFLICT (id) DO UPDATE SET session_id = excluded.session_id, owner = excluded.owner, "
    "status = excluded.status, body = excluded.body, input_items = excluded.input_items, "
    "previous_response_id = excluded.previous_response_id, slug = excluded.slug, used = excluded.used, "
    "size = excluded.size"
)
INPUT = "FROM responses r, json_each(r.input_items) i WHERE r.id = ? AND r.owner = ? AND i.type = 'object'"


def row_of(response: ResponseRecord) -> SqlRow:
    """Encode a response as the row for `save`, in the caller's thread."""
    body, items = write_json(response.body), write_json(list(response.input_items))
    facts: SqlRow = (
        response.id,
        response.session_id,
        response.owner,
        str(response.status),
        body,
        items,
        response.previous_response_id,
        response.slug,
        response.created_at,
        len(body) + len(items),
    )
    return facts


def record(row: SqlRow) -> ResponseRecord | None:
    """None for a row that cannot be decoded: it counts as evicted."""
    try:
        body, items = read_json(row[4]), read_objects(row[5])
    except (Undecodable, AttributeError):
        return None
    if not isinstance(body, dict):
        return None
    return ResponseRecord(*(*row[:4], body, items, *row[6:]))


@dataclass(frozen=True, slots=True)
class Room:
    """How many responses are kept, and how many bytes they may take together."""

    responses: int
    size: int


def save(db: Connection, values: Sequence[object], room: Room) -> None:
    run(db, SAVE, values)
    while value(db, "SELECT count > ? OR bytes > ? FROM response_totals", (room.responses, room.size)):
        least = "SELECT id FROM responses WHERE id <> ? ORDER BY used LIMIT 1"
        if not run(db, f"DELETE FROM responses WHERE id = ({least})", (values[0],)):
            return


def get(db: Connection, response_id: str, owner: str) -> ResponseRecord | None:
    row = one_row(db, f"SELECT {COLUMNS} FROM responses WHERE id = ? AND owner = ?", (response_id, owner))
    return None if row is None else record(row)


def touch(db: Connection, response_id: str) -> None:
    """Mark a response as used. The most recently used one needs no write."""
    newest = "SELECT max(used) FROM responses"
    run(db, f"UPDATE responses SET used = {NEXT_USE} WHERE id = ? AND used < ({newest})", (response_id,))


def input_items(
    db: Connection, response_id: str, owner: str, limit: int, *, newest: bool, after: str | None
) -> list[JsonObject] | None:
    """A page of the input items of a response; None if the response or the item `after` does not exist."""
    named = (response_id, owner)
    if not value(db, "SELECT json_valid(body) AND json_valid(input_items) FROM responses WHERE id = ? AND owner = ?",
                 named):  # fmt: skip
        return None
    start: int | None = -1
    if after is not None:
        farthest = "min" if newest else "max"
        start = value(db, f"SELECT {farthest}(i.key) {INPUT} AND i.value ->> '$.id' = ?", (*named, after))
    elif newest:
        start = 2**63 - 1
    if start is None:
        return None
    beyond = "i.key < ? ORDER BY i.key DESC" if newest else "i.key > ? ORDER BY i.key"
    rows = all_rows(db, f"SELECT i.value {INPUT} AND {beyond} LIMIT ?", (*named, start, limit))
    return [read_object(text) for (text,) in rows]


def delete(db: Connection, response_id: str, owner: str) -> bool:
    return run(db, "DELETE FROM responses WHERE id = ? AND owner = ?", (response_id, owner)) > 0


def unfinished(db: Connection) -> list[ResponseRecord]:
    sql = f"SELECT {COLUMNS} FROM responses WHERE status IN ('queued', 'in_progress') ORDER BY created_at"
    return readable(all_rows(db, sql))


def readable(rows: list[SqlRow]) -> list[ResponseRecord]:
    return [found for row in rows if (found := record(row)) is not None]
