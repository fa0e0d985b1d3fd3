"""What the store says against what the clients were told. Values in, findings out.

Rules:
- Whose a row is, its session says; whose a session is, the first question in it says. A word of anybody else in any
  row of that session has leaked.
- A question that was taken back counts as there: it was not lost, it was not answered.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ostler.gateway.config.data_folder import DATABASE, MIRRORS
from tools.faults import canary
from tools.faults.conversation import Conversation

ROWS = "select session_id, role, text || ' ' || items from messages order by id"
BESIDE = (
    "select session_id, body || input_items from responses",
    "select session_id, arguments || coalesce(output, '') from parked_calls",
)


@dataclass(frozen=True)
class Row:
    """A stored message."""

    session: str
    role: str
    text: str


@dataclass
class Verdict:
    """What is wrong, by its kind, and how much was looked at."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    looked_at: Counter[str] = field(default_factory=Counter)

    def by_kind(self) -> dict[str, list[str]]:
        """All of them."""
        return {
            "lost": self.lost,
            "doubled": self.doubled,
            "disordered": self.disordered,
            "leaked": self.leaked,
            "damaged": self.damaged,
        }

    @property
    def findings(self) -> list[str]:
        """One after the other."""
        return [line for lines in self.by_kind().values() for line in lines]


def read_folder(folder: Path) -> tuple[list[Row], list[tuple[str, str]], list[str]]:
    """The messages, everything else that is kept of sessions, and what SQLite thinks of its file."""
    with closing(sqlite3.connect(f"file:{folder / DATABASE}?mode=ro", uri=True, timeout=30)) as db:
        rows = [Row(*row) for row in db.execute(ROWS)]
        beside = [row for query in BESIDE for row in db.execute(query)]
        sound = [row[0] for row in db.execute("pragma integrity_check") if row[0] != "ok"]
    mirrors = [(file.stem, file.read_text()) for file in (folder / MIRRORS).glob("*.jsonl")]
    return rows, [*beside, *mirrors], sound


def judge(conversations: Sequence[Conversation], folder: Path) -> Verdict:
    """Of a gateway's whole data folder."""
    rows, beside, damaged = read_folder(folder)
    verdict = weigh(conversations, rows, beside)
    verdict.damaged += damaged
    return verdict


def weigh(
    conversations: Sequence[Conversation], rows: Sequence[Row], beside: Iterable[tuple[str, str]] = ()
) -> Verdict:
    """Every conversation against every row."""
    verdict = Verdict()
    whose = owners_of(rows)
    for session, text in [*((row.session, row.text) for row in rows), *beside]:
        verdict.looked_at["stored rows and files"] += 1
        if strange := canary.owners(text) - {whose.get(session)}:
            verdict.leaked.append(f"session {session} of {whose.get(session)} holds words of {sorted(strange)}")
    said: dict[int, list[Row]] = {}
    for row in rows:
        if row.session in whose:
            said.setdefault(whose[row.session], []).append(row)
    for conversation in conversations:
        weigh_one(conversation, said.get(conversation.number, []), verdict)
    return verdict


def owners_of(rows: Iterable[Row]) -> dict[str, int]:
    """By session, the conversation that asked first in it."""
    whose: dict[str, int] = {}
    for row in rows:
        if row.role == "user" and row.session not in whose:
            for found in canary.owners(row.text):
                whose[row.session] = found
    return whose


def weigh_one(conversation: Conversation, rows: Sequence[Row], verdict: Verdict) -> None:
    """Nothing lost, nothing doubled, nothing out of order."""
    name, looked_at = conversation.name, verdict.looked_at
    asked = list(places(rows, "user", canary.QUESTION))
    given = list(places(rows, "tool", canary.RESULT))
    for what, acknowledged, there in (
        ("questions", conversation.heard, asked),
        ("tool results", conversation.results, given),
    ):
        looked_at[f"acknowledged {what}"] += len(acknowledged)
        if lost := acknowledged - set(there):
            verdict.lost.append(f"{name}: the acknowledged {what} of turns {sorted(lost)}")
        if many := [turn for turn, times in Counter(there).items() if times > 1]:
            verdict.doubled.append(f"{name}: {what} of turns {many}; there is {around(rows, set(many))}")
        if there != sorted(there):
            verdict.disordered.append(f"{name}: {what} stand as {there}")
    answered = answers(rows)
    looked_at["acknowledged answers"] += len(conversation.answered)
    if lost := conversation.answered - answered:
        verdict.lost.append(f"{name}: the acknowledged answers of turns {sorted(lost)}; there is {around(rows, lost)}")


def places(rows: Iterable[Row], role: str, part: str) -> Iterator[int]:
    """Turn by turn, where rows of this role stand. The text and the items of one row say the same."""
    for row in rows:
        if row.role == role:
            yield from dict.fromkeys(canary.turns(row.text, part))


def answers(rows: Iterable[Row]) -> set[int]:
    """The turns whose question is followed by something the assistant said."""
    found: set[int] = set()
    asked: list[int] = []
    for row in rows:
        if row.role == "user":
            asked = canary.turns(row.text, canary.QUESTION)
        elif row.role == "assistant":
            found.update(asked)
    return found


def around(rows: Sequence[Row], turns: set[int]) -> list[str]:
    """The rows with these turns in them, and what follows each, for whoever has to find out."""
    marked = [place for place, row in enumerate(rows) if turns & set(canary.turns(row.text, canary.QUESTION))]
    near = sorted({place + step for place in marked for step in range(7)} & set(range(len(rows))))
    return [f"{rows[place].session[-6:]} {rows[place].role}: {rows[place].text[:160]}" for place in near]
