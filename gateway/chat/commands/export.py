"""`/export`: the transcript of this session, as Markdown or JSON lines.

Rules: `ostler sessions import` accepts the JSON lines. The Markdown has no internal facts, and no message can imitate
its structure: messages are quoted blocks.
"""

from collections.abc import Callable, Mapping, Sequence

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
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
    """A heading, then each message as a quoted block."""
    blocks = [f"# {name_of(session)}"]
    for message in messages:
        text = message.text or called(message)
        blocks += [f"**{speaker(message.role)}**", "\n".join(f"> {line}".rstrip() for line in text.split("\n"))]
    return "\n\n".join(blocks) + "\n"


FORMATS: Mapping[str, Export] = {"markdown": markdown, "md": markdown, "jsonl": jsonl, "json": jsonl}


USUAL = "markdown"


async def run(call: CommandCall) -> CommandReply:
    """Reply with the whole transcript."""
    make = FORMATS.get(call.args.lower() or USUAL)
    if make is None:
        return CommandReply(f"Use /export FORMAT with one of {', '.join(FORMATS)}.")
    session = call.conversation.session
    messages = [] if session is None else await call.conversation.store.history(session.id)
    if session is None or not messages:
        return CommandReply("Nothing was said in this session yet.")
    return CommandReply(make(session, messages))


COMMAND = ChatCommand(
    "export", "show the whole transcript, to take away", run, usage="[markdown | jsonl]", overtakes=True
)
