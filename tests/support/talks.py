"""Conversations that are taken back, branched, summed up and resumed: what a test wants to know of them."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ostler.gateway.config.data_folder import DATABASE
from ostler.gateway.model.observers import SwitchReason
from ostler.gateway.model.records import MessageRecord
from tests.support.chats import Chat
from tests.support.served import Served


@dataclass
class Heard:
    """A witness that keeps what it is told, in order."""

    told: list[tuple[Any, ...]] = field(default_factory=list)

    async def recall(self, session_id: str, question: str) -> str:
        self.told.append(("recall", session_id))
        return ""

    def turn_ended(self, session_id: str, question: str, answer: str) -> None:
        self.told.append(("turn", session_id, question, answer))

    def session_ended(self, session_id: str, transcript: Sequence[MessageRecord]) -> None:
        self.told.append(("ended", session_id, tuple(message.text for message in transcript)))

    def session_switched(self, session_id: str, *, parent_id: str, reason: SwitchReason) -> None:
        self.told.append(("switched", session_id, parent_id, reason))

    def session_rewound(self, session_id: str) -> None:
        self.told.append(("rewound", session_id))

    def of(self, *sessions: str) -> list[tuple[Any, ...]]:
        """What concerns the change of these sessions."""
        kinds = {"ended", "switched", "rewound"}
        return [each for each in self.told if each[0] in kinds and each[1] in sessions]


@dataclass
class Since:
    """What the agents were sent since a moment."""

    served: Served
    start: int

    @classmethod
    def now(cls, served: Served) -> "Since":
        return cls(served, len(served.frames("session/prompt")))

    @property
    def frames(self) -> list[dict[str, Any]]:
        """Prompts as they were sent."""
        return self.served.frames("session/prompt")[self.start :]

    @property
    def prompts(self) -> list[str]:
        """Their texts."""
        return self.served.prompts()[self.start :]

    @property
    def seats(self) -> set[str]:
        """The agent sessions they went to."""
        return {frame["params"]["sessionId"] for frame in self.frames}


def rows(served: Served, session_id: str, *, active: bool | None = True) -> list[str]:
    """The texts of a session: in the transcript, out of it, or all."""
    wanted = "" if active is None else f" and active = {int(active)}"
    found = served.rows(f"select text from messages where session_id = ?{wanted} order by id", session_id)
    return [text for (text,) in found]


async def talked(chat: Chat, *texts: str) -> str:
    """Say all of these; the session they are in."""
    for text in texts:
        await chat.said(text)
    session = chat.routed()
    assert session is not None
    return session


HOLDER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(served: Served) -> Iterator[None]:
    """Another process holds the database: it can be read and not written.

    A process of its own, because the locks of two SQLite libraries in one process do not see each other; and killed,
    not closed, because `Served.rows` (such a second library) has dropped our locks, so that its last act would be to
    remove the log of a database that it thinks nobody uses.
    """
    line = [sys.executable, "-c", HOLDER, str(served.folder / DATABASE)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == b"held\n"
            yield
        finally:
            holder.kill()
