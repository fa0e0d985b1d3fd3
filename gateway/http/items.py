"""Sorts the input items of the Responses API: earlier messages, results of calls, the question.

Rules:
- An item without `type` is a message. System and developer messages are instructions. The question is the last run of
  user messages; everything before it is context of the request.
- Every item has an id that no other item of its conversation has: pages are found by it.
- An `item_reference` names an item of an earlier response: the id of an item contains the id of its response, which is
  looked up for its owner only. One that does not exist any more is a 400 that names it: leaving it out would change the
  conversation.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ostler.gateway.model.api_error import bad
from ostler.gateway.model.ask import CallOutput, Entry
from ostler.gateway.model.content import parts_of, words_of
from ostler.gateway.model.records import NewMessage, Role
from ostler.gateway.model.store import Store
from ostler.pool.prompt import PromptPart
from ostler.wire.json import JsonObject


@dataclass
class InputConversation:
    """The sorted input of one request."""

    entries: list[Entry] = field(default_factory=list)
    """Messages before the question, in order."""
    question: list[JsonObject] = field(default_factory=list)
    parts: list[PromptPart] = field(default_factory=list)
    outputs: list[CallOutput] = field(default_factory=list)
    """Results at the end of the input, with no question after them."""
    instructions: list[str] = field(default_factory=list)
    thoughts: list[Entry] = field(default_factory=list)
    """Reasoning items whose place is known only when the next item is read."""

    @property
    def text(self) -> str:
        """The text of the question."""
        return words_of(self.parts)


def check_count(given: object, limit: int, param: str = "input") -> None:
    """Refuse more items and content parts than the limit: each costs far more memory than its bytes."""
    if not isinstance(given, list):
        return
    count = len(given)
    for item in given if count <= limit else ():
        for name in ("content", "output", "tool_calls"):
            inner = item.get(name)
            count += len(inner) if isinstance(inner, list) else 0
    if count > limit:
        text = f"{param} has more than {limit} items, messages and content parts; continue a stored conversation by "
        advice = "`conversation` or `previous_response_id` and send only what is new, or raise gateway.items_max"
        raise bad(text + advice, param, "array_above_max_length")


class ItemNames:
    """Gives each item of one input an id: its own, or a new one if it has none or another item has the same."""

    def __init__(self, new_id: Callable[[str], str], taken: Iterable[str]) -> None:
        self._new_id = new_id
        self._taken = set(taken)

    def of(self, item: JsonObject, prefix: str) -> str:
        """Return the id of an item, and remember it as taken."""
        given = word(item, "id")
        name = given if given and given not in self._taken else self._new_id(prefix)
        self._taken.add(name)
        return name


def named(given: str | Sequence[JsonObject]) -> list[str]:
    """Return the ids that the client has set."""
    names = () if isinstance(given, str) else (word(item, "id") for item in given)
    return [name for name in names if name]


def read_input(
    given: str | Sequence[JsonObject], new_id: Callable[[str], str], taken: Iterable[str] = ()
) -> InputConversation:
    """Sort the items. Items without an id, or with one that is `taken`, get a new one. Raises a 400."""
    items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
    found, names = InputConversation(), ItemNames(new_id, taken)
    for place, item in enumerate(items):
        add(found, item, f"input[{place}]", names)
    return found


def messages_of(said: InputConversation, response_id: str | None = None) -> list[NewMessage]:
    """Return the input as messages of a transcript, in order, with the id of the response that answers it, if there is
    one."""
    results = [(Role.TOOL, output.text, output.item) for output in said.outputs]
    asked = [NewMessage(Role.USER, said.question, said.text, response_id)] if said.question else []
    return [*(NewMessage(role, [item], text, response_id) for role, text, item in [*said.entries, *results]), *asked]


def add(found: InputConversation, item: JsonObject, param: str, names: ItemNames) -> None:
    """Sort one item into the input. Raises a 400."""
    kind = item.get("type", "message")
    match kind:
        case "message":
            add_message(found, item, param, names)
        case "function_call":
            settle(found)
            call = {**item, "id": names.of(item, "fc"), "status": word(item, "status") or "completed"}
            for name in ("call_id", "name", "arguments"):
                if not isinstance(item.get(name), str):
                    raise bad(f"{param}.{name} must be a string", f"{param}.{name}")
            found.entries.append((Role.ASSISTANT, "", call))
        case "function_call_output":
            settle(found)
            found.outputs.append(output_of(item, param, names))
        case "mcp_approval_request":
            settle(found)
            found.entries.append((Role.ASSISTANT, "", item))
        case "mcp_approval_response":
            settle(found)
            found.outputs.append(decision_of(item, param, names))
        case "reasoning":
            found.thoughts.append((Role.ASSISTANT, "", {**item, "id": names.of(item, "rs")}))
        case _:
            raise bad(f"{param}: an input item of type {kind!r} is not supported", f"{param}.type", "unsupported_item")


def add_message(found: InputConversation, item: JsonObject, param: str, names: ItemNames) -> None:
    """Sort a message into the input, by its role. Raises a 400."""
    role, parts = item.get("role"), parts_of(item.get("content"), f"{param}.content")
    if role in ("system", "developer"):
        found.instructions.append(words_of(parts))
        return
    if role not in ("user", "assistant"):
        raise bad(f"{param}.role must be user, assistant, system or developer", f"{param}.role")
    stored = stored_message(item, str(role), names)
    if role == "assistant":
        settle(found)
        found.entries.append((Role.ASSISTANT, words_of(parts), stored))
        return
    if found.outputs:
        answer_first(found)
    if not found.question:
        think(found)
    found.question.append(stored)
    found.parts += parts


def stored_message(item: JsonObject, role: str, names: ItemNames) -> JsonObject:
    """Return the message as the API lists it."""
    content = item.get("content")
    kind = "input_text" if role == "user" else "output_text"
    extra: JsonObject = {} if role == "user" else {"annotations": []}
    parts = [{"type": kind, "text": content, **extra}] if isinstance(content, str) else content
    return {
        "type": "message",
        "id": names.of(item, "msg"),
        "role": role,
        "status": "completed",
        "content": parts,
    }


def word(item: JsonObject, name: str) -> str | None:
    """Return a field if it is a text, else None: the API lists this field as a text."""
    value = item.get(name)
    return value if isinstance(value, str) else None


def settle(found: InputConversation) -> None:
    """Another item follows the supposed question, so the question is part of the conversation before it."""
    if found.outputs:
        answer_first(found)
    if found.question:
        item = (
            found.question[0] if len(found.question) == 1 else {**found.question[0], "content": merged(found.question)}
        )
        found.entries.append((Role.USER, found.text, item))
        found.question, found.parts = [], []
    think(found)


def think(found: InputConversation) -> None:
    """Place reasoning before the item that it led to."""
    found.entries += found.thoughts
    found.thoughts = []


def answer_first(found: InputConversation) -> None:
    """Move results into the conversation, because another item follows them."""
    found.entries += [(Role.TOOL, output.text, output.item) for output in found.outputs]
    found.outputs = []


def merged(messages: Sequence[JsonObject]) -> list[Any]:
    """Return the content parts of several messages."""
    return [part for message in messages for part in message["content"]]


def output_of(item: JsonObject, param: str, names: ItemNames) -> CallOutput:
    """Return the result of a call. Raises a 400."""
    call_id, output = item.get("call_id"), item.get("output")
    if not isinstance(call_id, str) or not call_id:
        raise bad(f"{param}.call_id must be a string", f"{param}.call_id")
    if not isinstance(output, str | list):
        raise bad(f"{param}.output must be a string or a list of content parts", f"{param}.output")
    parts = parts_of(output, f"{param}.output")
    stored = {**item, "id": names.of(item, "fco"), "status": word(item, "status") or "completed"}
    return CallOutput(call_id, words_of(parts), stored, [{"type": "text", "text": words_of(parts)}])


def decision_of(item: JsonObject, param: str, names: ItemNames) -> CallOutput:
    """Return the answer to a permission request, as a result. Raises a 400."""
    asked, approve, reason = item.get("approval_request_id"), item.get("approve"), item.get("reason")
    if not isinstance(asked, str) or not asked:
        raise bad(f"{param}.approval_request_id must be a string", f"{param}.approval_request_id")
    if not isinstance(approve, bool):
        raise bad(f"{param}.approve must be true or false", f"{param}.approve")
    always = approve and item.get("always") is True
    words = "permission refused" if not approve else "permission granted" + (" for this session" if always else "")
    text = f"{words}: {reason}" if isinstance(reason, str) and reason else words
    stored = {**item, "id": names.of(item, "mcprr")}
    return CallOutput(asked, text, stored, [{"type": "text", "text": text}], refused=not approve, always=always)


ITEM = re.compile(r"[a-z]+_([0-9a-f]{32})[0-9a-f]{4}")


async def resolved(items: str | Sequence[JsonObject] | None, store: Store, owner: str) -> str | list[JsonObject]:
    """Return the input with every reference replaced by its item. Raises a 400."""
    if isinstance(items, str):
        return items
    given = items or ()
    return [
        await referenced(item.get("id"), f"input[{place}]", store, owner)
        if item.get("type") == "item_reference"
        else item
        for place, item in enumerate(given)
    ]


async def referenced(item_id: object, param: str, store: Store, owner: str) -> JsonObject:
    """Return the item of a response of this owner. Raises a 400."""
    found = ITEM.fullmatch(item_id) if isinstance(item_id, str) else None
    response = await store.get_response(f"resp_{found[1]}", owner=owner) if found else None
    output: Sequence[JsonObject] = () if response is None else response.body.get("output", ())
    for item in output:
        if item.get("id") == item_id:
            return item
    raise bad(f"{param}: there is no item {str(item_id)[:100]!r}; send it whole", f"{param}.id", "item_not_found")
