"""Sessions and messages as lines of text for users. Pure.

Rules: one line per entry, short enough for a phone; the line contains what the user can type to select the entry.
"""

from collections.abc import Mapping, Sequence

from ostler.gateway.model.records import MessageRecord, Role, SessionRecord

PREVIEW = 60
LINE = 300
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
SPEAKERS = {Role.USER: "you", Role.ASSISTANT: "agent", Role.TOOL: "tool", Role.SYSTEM: "note"}


def short(text: str, most: int) -> str:
    """The text on one line, cut to `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def ago(seconds: float) -> str:
    """A duration in one unit, for example `5 min ago`."""
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def name_of(session: SessionRecord) -> str:
    """The title of the session, else its id."""
    return session.title or session.id


def session_lines(
    sessions: Sequence[SessionRecord], previews: Mapping[str, str], *, now: float, current: str | None
) -> list[str]:
    """Numbered lines, in the numbering of `/resume N`."""
    return [
        _session_line(place, session, previews.get(session.id, ""), now=now, here=session.id == current)
        for place, session in enumerate(sessions, 1)
    ]


def _session_line(place: int, session: SessionRecord, preview: str, *, now: float, here: bool) -> str:
    facts = [f"{session.message_count} messages", ago(now - session.last_active_at)]
    facts += ["this one"] if here else []
    said = f": {short(preview, PREVIEW)}" if preview else ""
    return f"{place}. {name_of(session)} ({', '.join(facts)}){said}"


def message_lines(messages: Sequence[MessageRecord]) -> list[str]:
    """A line for each message: speaker and text."""
    return [f"{speaker(message.role)}: {short(message.text or called(message), LINE)}" for message in messages]


def speaker(role: str) -> str:
    """The word for a role that users read."""
    return SPEAKERS.get(Role(role), role) if role in set(Role) else role


def called(message: MessageRecord) -> str:
    """A placeholder for a message without text."""
    names = [str(item.get("name")) for item in message.items if item.get("type") == "function_call"]
    return f"[calls {', '.join(names)}]" if names else "[nothing said]"


def counted(number: int, one: str) -> str:
    """`1 message`, `2 messages`, `no messages`."""
    return f"{number or 'no'} {one}{'' if number == 1 else 's'}"
