"""The mirror: for each session a JSONL file that people and tools can read. Derived; the store is the truth.

Rules:
- One line for each active message, in the order of the transcript. `append` adds, `rewrite` replaces by rename, so that
  a reader and a crash see the old file or the new one.
- A blind save never makes a file shorter: `save` refuses, because who has fewer messages knows less, not more. Only
  `rewrite`, which comes from a rewrite of the transcript, may.
- A file belongs to one session id, and an id cannot lead out of the folder.
- A line that cannot be read is skipped, counted and reported, never fatal. A torn last line (a crash while appending)
  is ended before the next one is added.
- Blocking file work, meant for a thread.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ostler.gateway.model.records import MessageRecord, NewMessage, checked_session_id
from ostler.wire.json import JsonObject, Undecodable, decode, encode_line

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700


@dataclass(frozen=True, slots=True)
class MirrorReading:
    """What a mirror says."""

    messages: tuple[NewMessage, ...]
    unreadable: int
    """Lines that are not a message."""
    exists: bool


class Mirror:
    """The folder of all mirrors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, session_id: str) -> Path:
        return self.folder / f"{checked_session_id(session_id)}.jsonl"

    def exists(self, session_id: str) -> bool:
        """Whether there is a file. Quick enough for the loop."""
        return self.path(session_id).exists()

    def append(self, session_id: str, messages: Iterable[MessageRecord | NewMessage]) -> None:
        """Add lines at the end."""
        lines = b"".join(line_of(message) for message in messages)
        if not lines:
            return
        self.folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        file = os.open(self.path(session_id), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE)
        try:
            _write_all(file, b"\n" + lines if _is_torn(file) else lines)
        finally:
            os.close(file)

    def save(self, session_id: str, messages: Sequence[MessageRecord | NewMessage]) -> bool:
        """Replace the file, unless that would make it shorter; whether it was written."""
        if len(self.read(session_id).messages) > len(messages):
            return False
        self.rewrite(session_id, messages)
        return True

    def rewrite(self, session_id: str, messages: Iterable[MessageRecord | NewMessage]) -> None:
        """Replace the file, be it shorter or not."""
        path = self.path(session_id)
        self.folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        # One name for each session: two who rewrite at once would only have to agree on whose rename is last.
        fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
        try:
            _write_all(file, b"".join(line_of(message) for message in messages))
            os.fsync(file)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        fresh.replace(path)

    def read(self, session_id: str) -> MirrorReading:
        """All that can be read of it."""
        try:
            raw = self.path(session_id).read_bytes()
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            return MirrorReading((), 0, exists=False)
        found = [message_of(line) for line in raw.split(b"\n") if line.strip()]
        readable = tuple(message for message in found if message is not None)
        return MirrorReading(readable, len(found) - len(readable), exists=True)

    def remove(self, session_id: str) -> None:
        """Forget a session that is pruned."""
        self.path(session_id).unlink(missing_ok=True)

    def session_ids(self) -> list[str]:
        """Every session that has a mirror."""
        return sorted(path.name.removesuffix(".jsonl") for path in self.folder.glob("[!.]*.jsonl"))


def line_of(message: MessageRecord | NewMessage) -> bytes:
    """One message on one line."""
    line: JsonObject = {
        "role": str(message.role),
        "items": list(message.items),
        "text": message.text,
        "created_at": message.created_at,
    }
    if message.response_id is not None:
        line["response_id"] = message.response_id
    return encode_line(line)


def message_of(line: bytes) -> NewMessage | None:
    """The message of a line; None for one that is none."""
    try:
        found = decode(line)
    except Undecodable:
        return None
    match found:
        case {"role": str() as role, "items": list() as items}:
            text, response_id, at = (found.get(name) for name in ("text", "response_id", "created_at"))
        case _:
            return None
    return NewMessage(
        role,
        [item for item in items if isinstance(item, dict)],
        text if isinstance(text, str) else "",
        response_id if isinstance(response_id, str) else None,
        # Said at no known time is said at one and the same time: healing must recognise it the next time.
        float(at) if isinstance(at, int | float) else 0.0,
    )


def _is_torn(file: int) -> bool:
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
