"""Conversations on disk, so that a new process can load the conversations of an older one.

Rules of this file: one file per session, created by its first message (a session without messages leaves no file), only
ever appended to. The first line is the session's cwd, each further line one message. Files that were not modified for a
month are removed once per process. An unwritable disk costs the stored conversation, never a turn: a conversation that
cannot be stored completely is removed, so that a later load is told that it is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time

from ostler.demo.conversation import dump_message, load_message

SUFFIX = ".jsonl"
OURS = "demo-"
MONTH = 30 * 86_400
ID_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def default_folder(environ: dict[str, str]) -> str:
    """Return the folder of the conversations when no flag names one."""
    if folder := environ.get("OSTLER_DEMO_STATE"):
        return folder
    home = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "ostler", "demo")


class DemoStore:
    """The stored conversations of one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._opened = False
        self._unkept: set[str] = set()
        """Sessions of which some message could not be written."""

    def append(self, session: str, cwd: str, messages: list[tuple[str, str]]) -> None:
        """Add messages to a session's file. Never raises OSError: on one, the session is no longer stored."""
        if session in self._unkept:
            return
        try:
            self._open()
            self._append(session, cwd, messages)
        except OSError as error:
            self._unkept.add(session)
            with contextlib.suppress(OSError):
                os.unlink(self._path(session))
            print(f"demo agent: {session} is not kept in {self._folder}: {error}", file=sys.stderr)

    def load(self, session: str) -> tuple[str, list[tuple[str, str]]] | None:
        """Return the cwd and the messages of a session, or None if it is not stored."""
        if not session or len(session) > 128 or not ID_LETTERS.issuperset(session) or session in self._unkept:
            return None
        try:
            with open(self._path(session), encoding="utf-8") as file:
                head, *lines = file.read().split("\n")
        except OSError:
            return None
        found = [load_message(line) for line in lines if line]
        return _cwd(head), [message for message in found if message is not None]

    def sessions(self) -> list[tuple[str, float]]:
        """Return the ids of the stored sessions and their modification times, newest first."""
        try:
            with os.scandir(self._folder) as entries:
                found = [(entry.name, entry.stat().st_mtime) for entry in entries]
        except OSError:
            return []
        stored = [(name.removesuffix(SUFFIX), touched) for name, touched in found if name.endswith(SUFFIX)]
        return sorted(stored, key=lambda row: -row[1])

    def delete(self, session: str) -> None:
        if self.load(session) is not None:
            os.unlink(self._path(session))

    def _append(self, session: str, cwd: str, messages: list[tuple[str, str]]) -> None:
        fd = os.open(self._path(session), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lines = [dump_message(role, text) for role, text in messages]
            if os.fstat(fd).st_size == 0:
                lines.insert(0, json.dumps({"cwd": cwd}))
            left = ("\n".join(lines) + "\n").encode("ascii")
            while left:
                left = left[os.write(fd, left) :]
        finally:
            os.close(fd)

    def _open(self) -> None:
        if self._opened:
            return
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._opened = True
        for session, touched in self.sessions():
            # Only files of the demo agent: the folder may hold files of the user. Another process may clean up at the
            # same time.
            if session.startswith(OURS) and time.time() - touched > MONTH:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path(session))

    def _path(self, session: str) -> str:
        return os.path.join(self._folder, session + SUFFIX)


def _cwd(head: str) -> str:
    try:
        return str(json.loads(head)["cwd"])
    except (ValueError, KeyError, TypeError):
        return "/"
