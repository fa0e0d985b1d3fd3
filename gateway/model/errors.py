"""Every error of the gateway. Facts are attributes; the text says what, where, and what to do.

Rules:
- There is one root, `GatewayError`. An error of a library is translated into one of these once, where it enters, with
  `from`.
- `StoreError` concerns the place where sessions are kept; `passing` says whether a retry can help.
- `RequestRefused` concerns the request: the store works, and the request cannot be fulfilled.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from ostler.pool.errors import PoolError


class GatewayError(Exception):
    """The root of every error that the gateway raises."""

    def again(self) -> Self:
        """Return a copy for one more reader: an instance that is raised twice would mix their tracebacks."""
        twin = type(self).__new__(type(self), *self.args)
        twin.__dict__.update(self.__dict__)
        twin.__cause__ = self.__cause__
        return twin


class StoreError(GatewayError):
    """The store cannot do its work. The failed call changed nothing, not even in part."""

    passing = True
    """Whether the same call may succeed later without a repair."""


class StoreLocked(StoreError):
    def __init__(self, path: Path, waited: float) -> None:
        self.path = path
        self.waited = waited
        super().__init__(f"{path}: still locked by another program after {waited:g} s; nothing was stored, try again")


class StoreFull(StoreError):
    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path}: the disk is full; nothing was stored, reading still works; free some space")


class StoreReadOnly(StoreError):
    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path}: cannot be written to; reading still works; check its owner, its mode and its disk")


class StoreDiskFault(StoreError):
    """The file or its folder cannot be opened, or the disk reports errors."""

    def __init__(self, path: Path, detail: str) -> None:
        self.path = path
        self.detail = detail
        super().__init__(f"{path}: {detail}; check that it is there, that it is ours and that its disk is sound")


class StoreCorrupt(StoreError):
    passing = False

    def __init__(self, path: Path, detail: str) -> None:
        self.path = path
        self.detail = detail
        super().__init__(f"{path}: is damaged ({detail}); keep a copy, then restore a backup or import the mirrors")


class StoreBusy(StoreError):
    """So many writes are waiting that one more would only wait as well."""

    def __init__(self, path: Path, waiting: int) -> None:
        self.path = path
        self.waiting = waiting
        super().__init__(f"{path}: {waiting} writes are waiting for the disk already; try again in a moment")


class StoreClosed(StoreError):
    passing = False

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path}: the store is closed; open it again")


class StoreTooNew(StoreError):
    passing = False

    def __init__(self, path: Path, version: int, known: int) -> None:
        self.path = path
        self.version = version
        self.known = known
        super().__init__(
            f"{path}: was written by a newer ostler (schema {version}, this one knows {known}); upgrade ostler"
        )


class StoreUnsafe(StoreError):
    """The SQLite library has the WAL-reset bug, which damages a file that two connections write to."""

    passing = False

    def __init__(self, version: str, needed: str) -> None:
        self.version = version
        self.needed = needed
        super().__init__(
            f"SQLite {version} can damage a shared database; {needed} or later is needed: upgrade the package apsw"
        )


class StoreOwned(StoreError):
    """Another gateway uses this data folder."""

    def __init__(self, path: Path, pid: int | None, command: str = "", since: str = "") -> None:
        self.path = path
        self.pid = pid
        self.command = command
        """The command line of the process that holds the folder."""
        self.since = since
        facts = ", ".join(part for part in (f"pid {pid}" if pid else "", f"since {since}" if since else "") if part)
        who = f"{command or 'another gateway'} ({facts})" if facts else command or "another gateway"
        super().__init__(f"{path}: {who} works on this data folder; stop it, or use another folder with --data-dir")


class StoreFault(StoreError):
    """A statement failed in a way that no other error covers: a bug of ours, reported in the database's words."""

    passing = False

    def __init__(self, path: Path, detail: str) -> None:
        self.path = path
        self.detail = detail
        super().__init__(f"{path}: {detail}; please report this")


class RequestRefused(GatewayError):
    """The store works, but it cannot fulfil this request. Nothing was changed."""


class NoSuchSession(RequestRefused):
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"there is no session {session_id!r}")


class UnknownMessage(RequestRefused):
    def __init__(self, session_id: str, message_id: int) -> None:
        self.session_id = session_id
        self.message_id = message_id
        super().__init__(f"session {session_id!r} has no active message {message_id}")


class RouteMoved(RequestRefused):
    """A session key leads to another session by now: a concurrent request moved it first."""

    def __init__(self, key: str, session_id: str | None) -> None:
        self.key = key
        self.session_id = session_id
        super().__init__(f"{key!r} has moved to session {session_id} meanwhile; nothing was changed, try again")


class ConversationMoved(RequestRefused):
    """The session was compressed while a request was on its way to it; a message stored there now would never be
    read."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__("the conversation was compressed meanwhile and goes on elsewhere; send the request again")


class CallsAnswered(RequestRefused):
    """A result for a function call that has a result already."""

    def __init__(self, call_ids: Sequence[str]) -> None:
        self.call_ids = tuple(call_ids)
        named = ", ".join(repr(call_id[:100]) for call_id in call_ids[:3])
        super().__init__(
            f"function call {named} has a result already, and a call takes one; nothing was changed. To go on, send a "
            "message; to try another result, send the whole conversation without a reference"
        )


class TitleTaken(RequestRefused):
    def __init__(self, title: str, session_id: str) -> None:
        self.title = title
        self.session_id = session_id
        super().__init__(f"the title {title!r} belongs to session {session_id}; choose another one")


class BadTitle(RequestRefused):
    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"not a title: {why}")


class BadSessionId(RequestRefused):
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"{session_id[:80]!r} is not a session id: 1 to 128 letters, digits, '_', '-' or '.', "
            "the first of them neither '-' nor '.'"
        )


class SessionQueueFull(RequestRefused):
    """So many turns wait for this session that one more would only wait as well."""

    def __init__(self, session_id: str, waiting: int) -> None:
        super().__init__(f"{waiting} turns are waiting for session {session_id} already; try again in a moment")
        self.session_id = session_id
        self.waiting = waiting


class Draining(RequestRefused):
    """The gateway is shutting down and accepts no new work."""

    def __init__(self) -> None:
        super().__init__("the gateway is shutting down and takes no new work; try again in a few seconds")


class OutputsMissing(RequestRefused):
    """A client answered some of the calls it was handed, but not all."""

    def __init__(self, missing: list[str]) -> None:
        super().__init__(f"no tool output found for function call {', '.join(missing)}; send all outputs together")
        self.missing = missing


class TurnRunning(RequestRefused):
    """A turn runs or waits, so nothing else may change the transcript."""

    def __init__(self, session_id: str) -> None:
        super().__init__("a turn is running: wait for it, or end it with /stop, then try again")
        self.session_id = session_id


class MovedOn(RequestRefused):
    """The question to be asked again is no longer the last one."""

    def __init__(self, session_id: str) -> None:
        super().__init__("the conversation went on meanwhile; nothing was changed")
        self.session_id = session_id


class SeatLost(PoolError):
    """An agent ended, or was ended, after the session had taken its seat and before the agent was prompted."""
