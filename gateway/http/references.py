"""`item_reference`: a client names an item of an earlier response instead of sending it again.

Rules:
- The id of an item contains the id of its response (`ResponseWriter` makes it so), which is looked up for its owner
  only.
- An item that does not exist any more is a 400 that names it: leaving it out would change the conversation.
"""

import re
from collections.abc import Sequence

from ostler.gateway.model.api_error import bad
from ostler.gateway.model.store import Store
from ostler.wire.json import JsonObject

ITEM = re.compile(r"[a-z]+_([0-9a-f]{32})[0-9a-f]{4}")


async def resolved(items: str | Sequence[JsonObject] | None, store: Store, owner: str) -> str | list[JsonObject]:
    """Return the input with every reference replaced by its item. Raises a 400."""
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
