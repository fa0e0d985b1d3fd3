"""A chat surface's answer as server-sent events: `session.message.<what>`, numbered from 0."""

from ostler.gateway.chat.commands.registry import CommandKind
from ostler.gateway.http.feed import Feed
from ostler.gateway.http.frames import frame, frames_of
from ostler.wire.json import JsonObject

PREFIX = "session.message."
TEXTS = {what: frames_of(PREFIX + what, {}, "text") for what in ("delta", "thought")}


class SessionFeed:
    """Writes the stream of one message. With `feed` None it writes nothing."""

    def __init__(self, feed: Feed | None) -> None:
        self.feed = feed
        self._number = 0

    def tell(self, what: str, fields: JsonObject) -> None:
        """Write the next event of the stream."""
        if self.feed is None:
            return
        if template := TEXTS.get(what):
            self.feed.append_delta(template, fields["text"])
        else:
            self.feed.write(frame(PREFIX + what, self._number, payload(what, fields)))
        self._number += 1


class Answers:
    """The streamed answers that are not complete, by session, the running one first."""

    def __init__(self) -> None:
        self._feeds: dict[str, list[Feed]] = {}

    def begin(self, session_id: str, feed: Feed) -> None:
        """Add a streamed answer; its turn runs after those before it."""
        if not feed.closed:
            self._feeds.setdefault(session_id, []).append(feed)

    def end(self, session_id: str, feed: Feed) -> None:
        """Remove an answer that is complete. No-op for one that was never added."""
        feeds = [each for each in self._feeds.pop(session_id, []) if each is not feed]
        if feeds:
            self._feeds[session_id] = feeds

    def running(self, session_id: str) -> Feed:
        """Return the feed of the running answer from its beginning; an ended feed if there is none."""
        feeds = self._feeds.get(session_id)
        if feeds:
            return feeds[0]
        nothing = Feed()
        nothing.close()
        return nothing


def replayed(message: JsonObject) -> Feed:
    """Return the stream of a stored answer: the same text in one piece."""
    feed = Feed()
    teller = SessionFeed(feed)
    if message["kind"] == CommandKind.ANSWER:
        teller.tell("started", {"id": message["id"], "session_id": message["session_id"]})
        teller.tell("delta", {"text": message["text"]})
    teller.tell(message["status"], message)
    feed.close()
    return feed


def payload(what: str, fields: JsonObject) -> JsonObject:
    """Return the fields of an event in their place: an item has its own type, and the last event has the whole
    message."""
    match what:
        case "item" | "notice" | "permission":
            return {what: fields}
        case "completed" | "incomplete" | "cancelled" | "failed":
            return {"message": fields}
        case _:
            return fields


def message_document(kind: str, fields: JsonObject) -> JsonObject:
    """Return a message as the API shows it."""
    return {"object": "session.message", "kind": kind, **fields}
