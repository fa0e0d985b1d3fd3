"""The items of a transcript, a page at a time: what is shown of a long conversation costs what is shown.

Rules:
- Items have no rows of their own, they stand in their messages. An item is found by its id in the text of its message
  first, so that of a long history only that message is understood.
- Clients may have given one id to several items. A page begins behind that one of them that is farthest on, so that
  whoever goes from page to page comes to an end.
"""

from collections.abc import Iterator, Sequence

from ostler.gateway.stores.sqlite.connection import Connection, all_rows
from ostler.gateway.stores.sqlite.json import write_json
from ostler.gateway.stores.sqlite.messages import ACTIVE, COLUMNS, record
from ostler.wire.json import JsonObject

ItemPlace = tuple[int, int]
"""(message id, number in it)"""
FIRST: ItemPlace = (-1, -1)
LAST: ItemPlace = (2**63 - 1, 0)
HOLDING = f"SELECT {COLUMNS} FROM messages m WHERE {ACTIVE} AND instr(items, ?) ORDER BY id"
HOLDING_LAST = f"{HOLDING} DESC"
KNOWN = (
    f"SELECT DISTINCT i.value ->> '$.id' FROM messages m, json_each(m.items) i WHERE {ACTIVE} "
    "AND i.value ->> '$.id' IN (SELECT value FROM json_each(?))"
)
OLDER = f"SELECT {COLUMNS} FROM messages m WHERE {ACTIVE} AND id <= ? ORDER BY id DESC LIMIT ?"
NEWER = f"SELECT {COLUMNS} FROM messages m WHERE {ACTIVE} AND id >= ? ORDER BY id LIMIT ?"


def find(db: Connection, session_id: str, item_id: str, *, last: bool = False) -> tuple[ItemPlace, JsonObject] | None:
    """Where the item is, and what it is; of several the first or the last."""
    for row in all_rows(db, HOLDING_LAST if last else HOLDING, (session_id, write_json(item_id))):
        message = record(row)
        placed = list(enumerate(message.items))
        for number, item in reversed(placed) if last else placed:
            if item.get("id") == item_id:
                return (message.id, number), item
    return None


def known(db: Connection, session_id: str, ids: Sequence[str]) -> set[str]:
    """Which of these ids items of the transcript have: one look, however many are asked for."""
    return {name for (name,) in all_rows(db, KNOWN, (session_id, write_json(list(ids))))}


def page(db: Connection, session_id: str, limit: int, *, newest: bool, after: str | None) -> list[JsonObject] | None:
    """As many items, the newest or the oldest first; None where `after` is no item of the transcript."""
    start = LAST if newest else FIRST
    if after is not None:
        found = find(db, session_id, after, last=not newest)
        if found is None:
            return None
        start = found[0]
    said: list[JsonObject] = []
    for place, item in walk(db, session_id, start, limit, newest=newest):
        if place != start:
            said.append(item)
        if len(said) == limit:
            break
    return said


def walk(
    db: Connection, session_id: str, start: ItemPlace, at_once: int, *, newest: bool
) -> Iterator[tuple[ItemPlace, JsonObject]]:
    """From a place on, so many messages with each look."""
    at, sql = start[0], OLDER if newest else NEWER
    while rows := all_rows(db, sql, (session_id, at, at_once)):
        for message in map(record, rows):
            placed = [((message.id, number), item) for number, item in enumerate(message.items)]
            for place, item in reversed(placed) if newest else placed:
                if (place <= start) if newest else (place >= start):
                    yield place, item
        at = rows[-1][0] - 1 if newest else rows[-1][0] + 1
