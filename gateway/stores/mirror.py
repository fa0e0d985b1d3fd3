"""The mirror: one JSONL file per session that people and tools can read. Derived; the store is the truth.

Rules:
- One line for each active message, in the order of the transcript. `append` adds lines; `rewrite` replaces the file by
  rename, so that a reader, or a start after a crash, sees the old file or the new one.
- `save` refuses to make a file shorter: a caller with fewer messages knows less than the file. Only `rewrite`, which
  follows a rewrite of the transcript, may shorten it.
- A file belongs to one session id, and an id cannot lead out of the folder.
- A line that cannot be read is skipped, counted and reported, never fatal. If a crash while appending left a torn last
  line, the next append ends that line first.
- All methods block on file I/O and are called in a thread (`exists` is fast enough for the event loop).
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
    """What could be read of a mirror."""

    messages: tuple[NewMessage, ...]
    unreadable: int
    """Lines that are not valid messages."""
    exists: bool


class Mirror:
    """The folder that holds the mirrors of all sessions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, session_id: str) -> Path:
        return self.folder / f"{checked_session_id(session_id)}.jsonl"

    def exists(self, session_id: str) -> bool:
        """Whether the session has a mirror. Fast enough for the event loop."""
        return self.path(session_id).exists()

    def append(self, session_id: str, messages: Iterable[MessageRecord | NewMessage]) -> None:
        """Append the lines of these messages."""
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
        """Replace the file unless that makes it shorter; return whether it was written."""
        if len(self.read(session_id).messages) > len(messages):
            return False
        self.rewrite(session_id, messages)
        return True

    def rewrite(self, session_id: str, messages: Iterable[MessageRecord | NewMessage]) -> None:
        """Replace the file, even by a shorter one."""
        path = self.path(session_id)
        self.folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        # One temporary name per session and process: of two concurrent rewrites, the last rename wins.
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
        """Read every valid message. A missing or unreadable file counts as no mirror."""
        try:
            raw = self.path(session_id).read_bytes()
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            return MirrorReading((), 0, exists=False)
        found = [message_of(line) for line in raw.split(b"\n") if line.strip()]
        readable = tuple(message for message in found if message is not None)
        return MirrorReading(readable, len(found) - len(readable), exists=True)

    def remove(self, session_id: str) -> None:
        """Delete the mirror of a pruned session."""
        self.path(session_id).unlink(missing_ok=True)

    def session_ids(self) -> list[str]:
        """The ids of all sessions that have a mirror."""
        return sorted(path.name.removesuffix(".jsonl") for path in self.folder.glob("[!.]*.jsonl"))


def line_of(message: MessageRecord | NewMessage) -> bytes:
    """Encode a message as one line; equal messages have equal lines."""
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
    """Decode a line; None if it is not a valid message."""
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
        # A message without a time gets a fixed one, so that the next healing recognises it.
        float(at) if isinstance(at, int | float) else 0.0,
    )


def _is_torn(file: int) -> bool:
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
