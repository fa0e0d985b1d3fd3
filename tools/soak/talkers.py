"""Twenty conversations over HTTP that remember what they were told, and the judge who compares that with the store.

Rules:
- A message is sent once. What was not acknowledged is not sent again: if it is there twice, the gateway did that.
- Now and then a session is left with `/new` and a turn taken back with `/undo`: what was said is still there, once.
- Acknowledged is a message with the first event of its stream, or with its whole answer; an answer with its last event.
- A talker ends its round at the first sign that the gateway is gone.
"""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import httpx

from ostler.gateway.config.data_folder import DATABASE, MIRRORS
from tests.support.plain_http import NO_AUTHORITIES

CONVERSATIONS = 20
PATIENCE = 60.0
BEGIN_ANEW, TAKE_BACK = 23, 7
"""Every so many messages."""
MINE = "select session_id from routing where session_key = ?"
ROWS = "select role, text from messages where session_id = ? and active order by id"
EVER = (
    "select m.session_id, role, text from messages m join sessions s on s.id = m.session_id "
    "where s.key = ? order by m.id"
)
LIVE = "select id from sessions where key = ? and ended_at is null"


@dataclass
class Talker:
    """One conversation."""

    key: str
    sent: int = 0
    heard: set[int] = field(default_factory=set)
    """Messages that were acknowledged."""
    answered: set[int] = field(default_factory=set)
    refused: Counter[int] = field(default_factory=Counter)
    """Statuses other than 200."""

    def talk(self, base: str, over: Event) -> None:
        """Until it is over, or until the gateway is gone."""
        with httpx.Client(base_url=base, timeout=PATIENCE, trust_env=False, verify=NO_AUTHORITIES) as http:
            try:
                while not over.is_set():
                    self.say(http)
            except httpx.TransportError:
                return

    def say(self, http: httpx.Client) -> None:
        """One message."""
        number = self.sent
        self.sent += 1
        for every, order in ((BEGIN_ANEW, "/new"), (TAKE_BACK, "/undo")):
            if number % every == every - 1:
                self.command(http, order)
        path, text = f"/v1/sessions/{self.key}/messages", f"{self.key}-{number}\n!sleep 0.0{number % 4}"
        if number % 2:
            self._stream(http, path, text, number)
            return
        answer = http.post(path, json={"text": text})
        if answer.status_code != 200:
            self.refused[answer.status_code] += 1
            return
        self.heard.add(number)
        if answer.json()["status"] == "completed":
            self.answered.add(number)

    def command(self, http: httpx.Client, order: str) -> None:
        """Whatever it says: what counts is what the store says afterwards."""
        answer = http.post(f"/v1/sessions/{self.key}/messages", json={"text": order})
        if answer.status_code != 200:
            self.refused[answer.status_code] += 1

    def _stream(self, http: httpx.Client, path: str, text: str, number: int) -> None:
        with http.stream("POST", path, json={"text": text, "stream": True}) as answer:
            if answer.status_code != 200:
                self.refused[answer.status_code] += 1
                return
            for line in answer.iter_lines():
                event = json.loads(line[6:]) if line.startswith("data: ") else {}
                if event.get("type") == "session.message.started":
                    self.heard.add(number)
                elif event.get("type") == "session.message.completed":
                    self.answered.add(number)

    def recall(self, base: str) -> list[str]:
        """What its agent knows of it."""
        with httpx.Client(base_url=base, timeout=PATIENCE, trust_env=False, verify=NO_AUTHORITIES) as http:
            answer = http.post(f"/v1/sessions/{self.key}/messages", json={"text": "!recall"})
            if answer.status_code == 502 and answer.json()["error"]["code"] == "empty_answer":
                return []  # it knows of nothing
            answer.raise_for_status()
            return [line for line in answer.json()["text"].splitlines() if not line.startswith("!sleep")]


@dataclass(frozen=True)
class Said:
    """A question in the store, and whether its answer stands behind it."""

    number: int
    answered: bool


def look(folder: Path) -> sqlite3.Connection:
    """The database, for reading only."""
    return sqlite3.connect(f"file:{folder / DATABASE}?mode=ro", uri=True, timeout=30)


def stored(folder: Path, key: str) -> tuple[str | None, list[tuple[str, str]]]:
    """The session of a key and its transcript."""
    with closing(look(folder)) as db:
        row = db.execute(MINE, (f"/{key}",)).fetchone()
        return (None, []) if row is None else (row[0], db.execute(ROWS, row).fetchall())


def said_in(talker: Talker, folder: Path) -> list[Said]:
    """Every question of a conversation, in whichever session, taken back or not."""
    with closing(look(folder)) as db:
        rows = db.execute(EVER, (f"/{talker.key}",)).fetchall()
    answers = {(session, text) for session, role, text in rows if role == "assistant"}
    said = []
    for session, role, text in rows:
        if role == "user":
            first = text.partition("\n")[0]
            said.append(Said(int(first.rpartition("-")[2]), (session, f"echo: {first}") in answers))
    return said


def judge(talker: Talker, folder: Path) -> list[str]:
    """Everything that is wrong with one conversation."""
    broken = []
    said = said_in(talker, folder)
    numbers = [each.number for each in said]
    if len(set(numbers)) != len(numbers):
        broken.append(f"{talker.key}: doubled {[number for number, many in Counter(numbers).items() if many > 1]}")
    if numbers != sorted(numbers):
        broken.append(f"{talker.key}: out of order")
    if lost := talker.heard - set(numbers):
        broken.append(f"{talker.key}: lost the acknowledged {sorted(lost)}")
    if lost := talker.answered - {each.number for each in said if each.answered}:
        broken.append(f"{talker.key}: lost the answers of {sorted(lost)}")
    session, _ = stored(folder, talker.key)
    with closing(look(folder)) as db:
        live = [row[0] for row in db.execute(LIVE, (f"/{talker.key}",))]
    if live != ([] if session is None else [session]):
        broken.append(f"{talker.key}: leads to {session}, alive are {live}")
    return broken


def mirror_differs(talker: Talker, folder: Path) -> bool:
    """Whether the mirror says something else than the store."""
    session, rows = stored(folder, talker.key)
    file = folder / MIRRORS / f"{session}.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [(line["role"], line["text"]) for line in lines] != rows
