"""`item_reference`: a client names an item of an earlier response instead of sending it again.

Rules: the id of an item names its response (`ResponseWriter` makes them so), which is looked up as its owner may. An
item that is gone is a 400 that names it: to leave it out would change what was said.
"""

import re
from collections.abc import Sequence

from ostler.gateway.model.api_error import bad
from ostler.gateway.model.store import Store
from ostler.wire.json import JsonObject

ITEM = re.compile(r"[a-z]+_([0-9a-f]{32})[0-9a-f]{4}")


async def resolved(items: str | Sequence[JsonObject] | None, store: Store, owner: str) -> str | list[JsonObject]:
    """The input with every reference replaced."""
    if isinstance(items, str):
        return items
    given = items or ()
    return [
        await _item(item.get("id"), f"input[{place}]", store, owner) if item.get("type") == "item_reference" else item
        for place, item in enumerate(given)
    ]


async def _item(item_id: object, param: str, store: Store, owner: str) -> JsonObject:
    found = ITEM.fullmatch(item_id) if isinstance(item_id, str) else None
    response = await store.get_response(f"resp_{found[1]}", owner=owner) if found else None
    output: Sequence[JsonObject] = () if response is None else response.body.get("output", ())
    for item in output:
        if item.get("id") == item_id:
            return item
    raise bad(f"{param}: there is no item {str(item_id)[:100]!r}; send it whole", f"{param}.id", "item_not_found")
