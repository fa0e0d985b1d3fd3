"""The stream of a stored response, made again from what is stored: for clients that come back after a restart.

Rules:
- Event for event and number for number what was sent live: the response keeps the sizes of its pieces (`SHAPE`, never
  shown), everything else follows from its items. A client that holds N events loses and repeats nothing.
- A response that was never streamed, or whose gateway died while it was made, has no sizes: each item is one piece.
  Whoever holds more events than that gets the last one, under the number that comes next: it has the whole response.
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
"""In the body of a stored response: how its stream was cut. Taken out before anybody sees it."""
OURS = frozenset((SHAPE, HELD_INSTRUCTIONS))
ReplayedEvent = tuple[str, JsonObject]


def public(body: JsonObject) -> JsonObject:
    """The resource without what is ours."""
    return {name: value for name, value in body.items() if name not in OURS}


def ended(body: JsonObject) -> bool:
    """Whether nothing of it is still to come."""
    return body.get("status") in {*LAST}


def replay(stored: JsonObject, start: int) -> Feed:
    """The whole stream, closed. `start` is where the client wants to go on."""
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
    """From created to the end."""
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
    """One item: added, filled, done."""
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
    """The text of a message."""
    yield "response.content_part.added", {**place, "part": text_part("")}
    for piece in pieces(text, cuts):
        yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**place, "text": text, "logprobs": []}
    yield "response.content_part.done", {**place, "part": text_part(text)}


def summary_events(place: JsonObject, text: str, cuts: Sequence[int]) -> Iterator[ReplayedEvent]:
    """The text of a thought, or of what the agent did."""
    yield "response.reasoning_summary_part.added", {**place, "part": {"type": "summary_text", "text": ""}}
    for piece in pieces(text, cuts):
        yield "response.reasoning_summary_text.delta", {**place, "delta": piece}
    yield "response.reasoning_summary_text.done", {**place, "text": text}
    yield "response.reasoning_summary_part.done", {**place, "part": {"type": "summary_text", "text": text}}


def pieces(text: str, cuts: Sequence[int]) -> Iterator[str]:
    """As it came."""
    at = 0
    for size in cuts or [len(text)]:
        yield text[at : at + size]
        at += size
