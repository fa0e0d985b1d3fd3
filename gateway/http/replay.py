"""Makes the stream of a stored response again, for clients that reconnect after a restart.

Rules:
- The events and their numbers are those that were sent live: the stored response has the sizes of its pieces (`SHAPE`,
  never shown), and everything else follows from its items. A client that has N events misses and repeats nothing.
- A response that was never streamed, or whose gateway died while it was made, has no sizes: each item is one piece. A
  client that has more events than that gets the last one, with the number that it expects next: that event contains the
  whole response.
"""

from collections.abc import Iterator, Sequence

from ostler.gateway.http.feed import Feed
from ostler.gateway.http.frames import frame
from ostler.gateway.http.resource import LAST
from ostler.gateway.model.outcome import TurnStatus
from ostler.gateway.model.records import HELD_INSTRUCTIONS
from ostler.gateway.turns.output import message, reasoning, text_part
from ostler.wire.json import JsonObject

SHAPE = "ostler_stream"
"""Key in the body of a stored response: the sizes of its stream's pieces. Removed before the body leaves the
gateway."""
OURS = frozenset((SHAPE, HELD_INSTRUCTIONS))
ReplayedEvent = tuple[str, JsonObject]


def public(body: JsonObject) -> JsonObject:
    """Return the resource without the fields that only the gateway uses."""
    return {name: value for name, value in body.items() if name not in OURS}


def ended(body: JsonObject) -> bool:
    """Whether the response is complete."""
    return body.get("status") in {*LAST}


def replay(stored: JsonObject, start: int) -> Feed:
    """Return the whole stream, closed. `start` is the number of the next event that the client expects."""
    shape, body = stored.get(SHAPE), public(stored)
    feed = Feed()
    events = list(all_events(body, shape))
    for number, (kind, fields) in enumerate(events):
        feed.write(frame(kind, number, fields))
    if shape is None and start >= len(events):
        kind, fields = events[-1]
        feed.skip(start)
        feed.write(frame(kind, start, fields))
    feed.close()
    return feed


def all_events(body: JsonObject, shape: JsonObject | None) -> Iterator[ReplayedEvent]:
    """Yield every event, from `response.created` to the last."""
    queued = bool(body.get("background"))
    fresh: JsonObject = {"output": [], "usage": None, "completed_at": None, "error": None, "incomplete_details": None}
    before = {**body, **fresh, "status": "queued" if queued else "in_progress"}
    yield "response.created", {"response": before}
    if queued:
        yield "response.queued", {"response": before}
    if shape is None or shape.get("started"):
        yield "response.in_progress", {"response": {**before, "status": "in_progress"}}
    items: Sequence[JsonObject] = body.get("output", ())
    sizes: Sequence[Sequence[int]] = [()] * len(items) if shape is None else shape["sizes"]
    for index, (item, cuts) in enumerate(zip(items, sizes, strict=True)):
        yield from item_events(index, item, cuts)
    yield LAST[TurnStatus(body["status"])], {"response": body}


def item_events(index: int, item: JsonObject, cuts: Sequence[int]) -> Iterator[ReplayedEvent]:
    """Yield the events of one item: added, filled, done."""
    place: JsonObject = {"item_id": item.get("id"), "output_index": index}
    match item.get("type"):
        case "message":
            yield "response.output_item.added", {"output_index": index, "item": message(str(item["id"]))}
            yield from message_events({**place, "content_index": 0}, item["content"][0]["text"], cuts)
        case "reasoning":
            yield "response.output_item.added", {"output_index": index, "item": reasoning(str(item["id"]))}
            yield from summary_events({**place, "summary_index": 0}, item["summary"][0]["text"], cuts)
        case "function_call":
            begun = {**item, "arguments": "", "status": "in_progress"}
            yield "response.output_item.added", {"output_index": index, "item": begun}
            yield "response.function_call_arguments.delta", {**place, "delta": item["arguments"]}
            done = {**place, "name": item["name"], "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", done
        case _:
            yield "response.output_item.added", {"output_index": index, "item": item}
    yield "response.output_item.done", {"output_index": index, "item": item}


def message_events(place: JsonObject, text: str, cuts: Sequence[int]) -> Iterator[ReplayedEvent]:
    """Yield the events of a message's text."""
    yield "response.content_part.added", {**place, "part": text_part("")}
    for piece in pieces(text, cuts):
        yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**place, "text": text, "logprobs": []}
    yield "response.content_part.done", {**place, "part": text_part(text)}


def summary_events(place: JsonObject, text: str, cuts: Sequence[int]) -> Iterator[ReplayedEvent]:
    """Yield the events of a reasoning item's text: a thought, or what the agent did."""
    yield "response.reasoning_summary_part.added", {**place, "part": {"type": "summary_text", "text": ""}}
    for piece in pieces(text, cuts):
        yield "response.reasoning_summary_text.delta", {**place, "delta": piece}
    yield "response.reasoning_summary_text.done", {**place, "text": text}
    yield "response.reasoning_summary_part.done", {**place, "part": {"type": "summary_text", "text": text}}


def pieces(text: str, cuts: Sequence[int]) -> Iterator[str]:
    """Yield the text in its original pieces; as one piece if their sizes are unknown."""
    at = 0
    for size in cuts or [len(text)]:
        yield text[at : at + size]
        at += size
