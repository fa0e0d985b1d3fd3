"""Notes about users in one SQLite file with a full-text index. The file is private to its owner, each note to its user.

Rules:
- Every query and every change names its user. The user is also part of the index, as a word of its own, so that a
  search does not scan the notes of other users.
- A fact was noted on purpose and stays until it is forgotten. A saying is what a user said in passing: the oldest ones
  are dropped, and those of a session are removed when turns of it are undone.
- A note that was forgotten on purpose does not come back as a saying: its digest is kept, not its text.
- A fact needs one word in common with a question, a saying two: a single common word is chance.
- One connection, used by one thread at a time.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Final
from urllib.parse import quote

import apsw

from ostler.gateway.stores.sqlite.connection import SqlRow, all_rows, connect, make_private, run, value

log = logging.getLogger("ostler.memory")

LOCK_WAIT: Final = 5.0
TEXT_LIMIT: Final = 2000
MOST_FACTS: Final = 5000
MOST_SAYINGS: Final = 5000
"""Limits for one user."""
CANDIDATES: Final = 40
MOST_WORDS: Final = 24
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL, token TEXT NOT NULL, kind TEXT NOT NULL, session_id TEXT NOT NULL,
    text TEXT NOT NULL, created_at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS notes_of_user ON notes (user, kind, id);
CREATE INDEX IF NOT EXISTS notes_of_session ON notes (session_id);
CREATE INDEX IF NOT EXISTS notes_by_text ON notes (user, kind, text);
CREATE TABLE IF NOT EXISTS forgotten (user TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (user, digest));
CREATE VIRTUAL TABLE IF NOT EXISTS note_words USING fts5 (
    token, text, content='notes', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER IF NOT EXISTS note_made AFTER INSERT ON notes BEGIN
    INSERT INTO note_words (rowid, token, text) VALUES (new.id, new.token, new.text);
END;
CREATE TRIGGER IF NOT EXISTS note_gone AFTER DELETE ON notes BEGIN
    INSERT INTO note_words (note_words, rowid, token, text) VALUES ('delete', old.id, old.token, old.text);
END;
"""
FOUND: Final = """
SELECT n.id, n.kind, n.session_id, n.text, n.created_at, highlight(note_words, 1, char(2), char(3))
FROM note_words JOIN notes n ON n.id = note_words.rowid
WHERE note_words MATCH ?1 AND n.user = ?2 AND (n.kind = 'fact' OR n.session_id <> ?4)
ORDER BY n.kind, bm25(note_words, 0.0, 1.0) LIMIT ?3
"""
KNOWN: Final = """
SELECT id FROM notes WHERE user = ?1 AND kind = ?2 AND text = ?3
UNION ALL SELECT 0 FROM forgotten WHERE user = ?1 AND digest = ?4
"""
MAKE: Final = "INSERT INTO notes (user, token, kind, session_id, text, created_at) VALUES (?, ?, ?, ?, ?, ?)"
SHUN: Final = "INSERT OR IGNORE INTO forgotten (user, digest) VALUES (?, ?)"
MAKE_ROOM: Final = """
DELETE FROM notes WHERE user = ?1 AND kind = ?2 AND id <= (
    SELECT id FROM notes WHERE user = ?1 AND kind = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3
)
"""
WORD: Final = re.compile(r"\w+")
HIT: Final = re.compile("\x02([^\x03]*)\x03")
COMMON_WORDS: Final = (
    "a about after all also am an and any are as at be because been before but by can could did do does for from get"
    " had has have he her here him his how i if in into is it its just let like me more my no not now of off on or our"
    " out over please she should so some tell than that the their them then there these they this to up us was we were"
    " what when where which who why will with would yes you your"
)
COMMON: Final = frozenset(COMMON_WORDS.split())


class NoteKind(StrEnum):
    FACT = "fact"
    SAYING = "saying"
    """Sorts after `FACT`; searches rely on it."""


@dataclass(frozen=True, slots=True)
class StoredNote:
    id: int
    kind: str
    session_id: str
    text: str
    created_at: float


class Notebook:
    """The open notes file. Thread-safe."""

    def __init__(self, path: Path, wall: Callable[[], float], *, most_sayings: int = MOST_SAYINGS) -> None:
        make_private(path)
        self._wall = wall
        self._most = {NoteKind.FACT: MOST_FACTS, NoteKind.SAYING: most_sayings}
        self._lock = Lock()
        self._db = connect(path, LOCK_WAIT)
        try:
            run(self._db, SCHEMA)
        except apsw.Error:
            self._db.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def keep(self, kind: NoteKind, text: str, *, session_id: str, user: str) -> int:
        """Store a note and return its id; 0 for a saying that was forgotten on purpose. A note that exists keeps its
        id."""
        text = cleaned(text)
        with self._lock, self._db:
            if kind is NoteKind.FACT:
                run(self._db, "DELETE FROM forgotten WHERE user = ? AND digest = ?", (user, digest(text)))
            note = value(self._db, KNOWN, (user, kind, text, digest(text)))
            if note is None:
                run(self._db, MAKE, (user, token_of(user), kind, session_id, text, self._wall()))
                note = self._db.last_insert_rowid()
                run(self._db, MAKE_ROOM, (user, kind, self._most[kind]))
        return int(note)

    def search(self, words: str, *, user: str, limit: int, besides: str = "") -> list[StoredNote]:
        """The user's notes that match these words, facts first; without the sayings of the session `besides`."""
        wanted = meaningful(words)
        if not wanted:
            return []
        match = f"token : {token_of(user)} AND text : ({' OR '.join(quoted(word) for word in wanted)})"
        with self._lock:
            rows = all_rows(self._db, FOUND, (match, user, CANDIDATES, besides))
        return [StoredNote(*row[:5]) for row in rows if hits(row) >= needed(row, len(wanted))][:limit]

    def forget(self, note_id: int, *, user: str) -> bool:
        """Delete a note on purpose; return whether the user had it."""
        with self._lock, self._db:
            gone = all_rows(self._db, "DELETE FROM notes WHERE id = ? AND user = ? RETURNING text", (note_id, user))
            for (text,) in gone:
                run(self._db, SHUN, (user, digest(text)))
        return bool(gone)

    def shun(self, text: str, *, user: str) -> None:
        """Never keep this text as a saying."""
        with self._lock, self._db:
            run(self._db, SHUN, (user, digest(cleaned(text))))

    def erase(self, session_ids: Sequence[str] = (), *, facts: bool = True, owner: str | None = None) -> int:
        """Delete and overwrite the notes of these sessions, or without `facts` only their sayings, or all notes of an
        owner; return how many there were."""
        with self._lock, self._db:
            of_session = "DELETE FROM notes WHERE session_id = ? AND (? OR kind = 'saying')"
            gone = sum(run(self._db, of_session, (one, facts)) for one in session_ids)
            if owner is not None:
                user = quote(owner, safe="")
                theirs = (user, len(user) + 1, f"{user}/")
                gone += run(self._db, "DELETE FROM notes WHERE user = ? OR substr(user, 1, ?) = ?", theirs)
                run(self._db, "DELETE FROM forgotten WHERE user = ? OR substr(user, 1, ?) = ?", theirs)
            run(self._db, "INSERT INTO note_words (note_words) VALUES ('optimize')")
        self._empty_log()
        return gone

    def _empty_log(self) -> None:
        """Truncate the log, which still holds text that was overwritten in the file. A program that reads meanwhile
        prevents it."""
        with self._lock:
            try:
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except (apsw.BusyError, apsw.LockedError):
                log.warning("the log of the memory is still read by others and keeps what was erased for now")

    def take_back(self, session_id: str) -> None:
        """Delete the sayings of a session, because some of its turns were undone."""
        with self._lock, self._db:
            run(self._db, "DELETE FROM notes WHERE session_id = ? AND kind = ?", (session_id, NoteKind.SAYING))


def cleaned(text: str) -> str:
    """The text as it is stored: trimmed, cut, and valid UTF-8."""
    return text.strip()[:TEXT_LIMIT].encode("utf-8", "replace").decode()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def token_of(user: str) -> str:
    """The user as a word of the index that occurs in no text."""
    return "u" + hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def meaningful(words: str) -> Sequence[str]:
    """The distinct words of a text that are worth searching for."""
    found = dict.fromkeys(word.lower() for word in WORD.findall(words))
    return [word for word in found if word not in COMMON and (len(word) > 1 or not word.isascii())][:MOST_WORDS]


def quoted(word: str) -> str:
    """Quote a word, so that it does not act as an operator of the index."""
    return f'"{word}"'


def hits(row: SqlRow) -> int:
    """How many different words the note has in common with the question."""
    return len({found.lower() for found in HIT.findall(row[5])})


def needed(row: SqlRow, asked: int) -> int:
    """How many common words make the note worth offering."""
    return 1 if row[1] == NoteKind.FACT else min(2, asked)
