"""Pages of the items of a transcript. The cost of a page depends on its size, not on the length of the conversation.

Rules:
- Items have no rows of their own; they are part of their messages. An item is found by searching its id in the text of
  the messages first, so that in a long history only that message is decoded.
- A client may have given one id to several items. A page starts after the farthest item with the id, so that a client
  that follows the pages always reaches the end.
"""

from collections.abc import Iterator, Sequence

from ostler.gateway.stores.sqlite.connection import Connection, all_rows
from ostler.gateway.stores.sqlite.json import write_json
from ostler.gateway.stores.sqlite.messages import ACTIVE, COLUMNS, record
from ostler.wire.json import JsonObject

ItemPlace = tuple[int, int]
"""(message id, index in the message)"""
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
    """Find an item by its id: the first one with it, or with `last` the last one."""
    for row in all_rows(db, HOLDING_LAST if last else HOLDING, (session_id, write_json(item_id))):
        message = record(row)
        placed = list(enumerate(message.items))
        for number, item in reversed(placed) if last else placed:
            if item.get("id") == item_id:
                return (message.id, number), item
    return None


def known(db: Connection, session_id: str, ids: Sequence[str]) -> set[str]:
    """The subset of `ids` that items of the transcript have. One query, however many ids are asked for."""
    return {name for (name,) in all_rows(db, KNOWN, (session_id, write_json(list(ids))))}


def page(db: Connection, session_id: str, limit: int, *, newest: bool, after: str | None) -> list[JsonObject] | None:
    """Up to `limit` items, newest or oldest first; None if `after` is no item of the transcript."""
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
    """Yield items from a place on, reading `at_once` messages per query."""
    at, sql = start[0], OLDER if newest else NEWER
    while rows := all_rows(db, sql, (session_id, at, at_once)):
        for message in map(record, rows):
            placed = [((message.id, number), item) for number, item in enumerate(message.items)]
            for place, item in reversed(placed) if newest else placed:
                if (place <= start) if newest else (place >= start):
                    yield place, item
        at = rows[-1][0] - 1 if newest else rows[-1][0] + 1
