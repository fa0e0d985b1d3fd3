"""A transcript to take away, as JSON lines or as Markdown. Pure.

Rules: JSON lines are what `ostler sessions import` takes. Nothing internal is in the Markdown, and nothing in it can be
mistaken for its structure: what was said stands in quoted blocks.
"""

from collections.abc import Callable, Mapping, Sequence

from ostler.gateway.chat.lists import called, name_of, speaker
from ostler.gateway.model.records import MessageRecord, SessionRecord
from ostler.gateway.stores.exchange import session_facts
from ostler.gateway.stores.mirror import line_of
from ostler.wire.json import encode_line

Export = Callable[[SessionRecord, Sequence[MessageRecord]], str]


def jsonl(session: SessionRecord, messages: Sequence[MessageRecord]) -> str:
    """A line for the session, then one for each message."""
    lines = [encode_line(session_facts(session)), *map(line_of, messages)]
    return b"".join(lines).decode()


def markdown(session: SessionRecord, messages: Sequence[MessageRecord]) -> str:
    """For people to read."""
    blocks = [f"# {name_of(session)}"]
    for message in messages:
        text = message.text or called(message)
        blocks += [f"**{speaker(message.role)}**", "\n".join(f"> {line}".rstrip() for line in text.split("\n"))]
    return "\n\n".join(blocks) + "\n"


FORMATS: Mapping[str, Export] = {"markdown": markdown, "md": markdown, "jsonl": jsonl, "json": jsonl}
