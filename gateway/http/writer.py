"""The sink of the Responses API: builds the resource, writes the stream, and returns what is stored.

Rules: `sequence_number` counts from 0 in steps of 1. `publish` writes the last event, after the end is durable.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from ostler.gateway.http.feed import Feed
from ostler.gateway.http.frames import FrameTemplate, frame, frames_of
from ostler.gateway.http.idempotency import Repeat, is_answer
from ostler.gateway.http.replay import SHAPE
from ostler.gateway.http.resource import LAST, Heading, conclude, resource
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import ResponseRecord
from ostler.gateway.turns.answer_sink import StoredAnswer
from ostler.gateway.turns.output import OutputBuilder
from ostler.gateway.turns.pending_calls import AskedCall
from ostler.gateway.turns.usage import usage_of
from ostler.pool.events import TurnEvent
from ostler.wire.json import JsonObject
from ostler.wire.redaction import redacted


class ResponseWriter:
    """Writes one response of the Responses API."""

    def __init__(
        self,
        heading: Heading,
        *,
        session_id: str,
        owner: str,
        slug: str | None,
        input_items: Sequence[JsonObject],
        read: int,
        functions: Sequence[str],
        wall: Callable[[], float],
        feed: Feed | None,
        repeat: Repeat | None = None,
        ended: Callable[[str], None],
        said: Callable[[str], None],
    ) -> None:
        self.id = heading.id
        self.document = resource(heading)
        self.outcome: TurnOutcome | None = None
        self.done = asyncio.Event()
        self.agent_spoke = False
        """Whether the agent sent any event."""
        self.session_id = session_id
        self.feed = feed
        self._heading = heading
        self._owner = owner
        self._slug = slug
        self._input = tuple(input_items)
        self._read = read
        self._wall = wall
        self._repeat = repeat
        self._ended = ended
        self._said = said
        self._final = False
        self._numbers = 0
        self._items = 0
        self._output = OutputBuilder(self._emit, self._begin_text, self._item_id, functions)
        self._announced = self._started = False

    def queue(self) -> None:
        """Announce a background response: it is stored and waits for its turn."""
        self.document["status"] = "queued"
        self._announce()
        self._emit("response.queued", {"response": self.document})

    def begin(self) -> ResponseRecord | None:
        """Mark the response as in progress, and return it to be stored with the question."""
        self.document["status"] = "in_progress"
        return self.record()

    def started(self) -> None:
        """Announce that the question is durable and is being answered."""
        self._announce()
        self._started = True
        self._emit("response.in_progress", {"response": self.document})

    def take(self, event: TurnEvent) -> None:
        """Add one event of the agent to the output and the stream."""
        self.agent_spoke = True
        self._output.take(event)

    def close(self, outcome: TurnOutcome, calls: Sequence[AskedCall]) -> StoredAnswer:
        """Conclude the response and return what to store. Called again with a failure if it could not be stored."""
        self._output.finish(calls, complete=outcome.status is TurnStatus.COMPLETED)
        self.outcome = outcome
        self._final = outcome.status is TurnStatus.COMPLETED and not calls
        self.document["output"] = self._output.items
        usage = usage_of(outcome.usage or self._output.usage, self._read, self._output.written)
        conclude(self.document, outcome, usage, int(self._wall()), redacted(outcome.message))
        record = self.record()
        repeat = self._repeat if is_answer(outcome, agent_spoke=self.agent_spoke) else None
        answer = None if repeat is None else repeat.record(self.document, self.session_id, self._wall())
        return StoredAnswer(self._output.items, record, self._slug if record else None, answer)

    def publish(self) -> None:
        """Write the last event of the stream, and wake the route."""
        self._announce()
        if self._final:
            self._said(self._output.text)
        status = TurnStatus(self.document["status"])
        self._emit(LAST[status], {"response": self.document})
        if self.feed is not None:
            self.feed.close()
        self._ended(self.id)
        self.done.set()

    def record(self) -> ResponseRecord | None:
        """Return the response as it is stored; None if the client asked that nothing be stored."""
        if not self._heading.store:
            return None
        return ResponseRecord(
            self.id,
            self.session_id,
            self._owner,
            self.document["status"],
            self._shaped(),
            self._input,
            self._heading.previous_response_id,
            self._slug,
            self._heading.created_at,
        )

    def _shaped(self) -> JsonObject:
        """Return the body with the sizes of its stream's pieces, once the stream is complete."""
        if self.feed is None or self.outcome is None or self._output.sizes is None:
            return self.document
        return {**self.document, SHAPE: {"started": self._started, "sizes": self._output.sizes}}

    def _announce(self) -> None:
        if not self._announced:
            self._announced = True
            self._emit("response.created", {"response": self.document})

    def _item_id(self, prefix: str) -> str:
        """Return a new item id. It contains the response's id, so that a reference to an item can be resolved."""
        self._items += 1
        return f"{prefix}_{self.id.removeprefix('resp_')}{self._items:04x}"

    def _emit(self, kind: str, fields: JsonObject) -> None:
        if self.feed is None:
            return
        self.feed.write(frame(kind, self._numbers, fields))
        self._numbers += 1

    def _begin_text(self, kind: str, fields: JsonObject) -> Callable[[str], None]:
        return partial(self._append_delta, frames_of(kind, fields, "delta"))

    def _append_delta(self, template: FrameTemplate, piece: str) -> None:
        if self.feed is None:
            return
        self.feed.append_delta(template, piece)
        self._numbers += 1
