"""Twenty conversations over HTTP that remember what they were told, and the judge who compares that with the store.

Rules:
- A message is sent once. What was not acknowledged is not sent again: if it is there twice, the gateway did that.
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

from ostler.gateway.data_folder import DATABASE, MIRRORS

CONVERSATIONS = 20
PATIENCE = 60.0
MINE = "select session_id from routing where session_key = ?"
ROWS = "select role, text from messages where session_id = ? and active order by id"


@dataclass
class Talker:
    """One conversation."""

    key: str
    sent: int = 0
    heard: set[int] = field(default_factory=set)
    """Messages that were acknowledged."""
    answered: set[int] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    refused: Counter[int] = field(default_factory=Counter)
    """Statuses other than 200."""

    def talk(self, base: str, over: Event) -> None:
        """Until it is over, or until the gateway is gone."""
        with httpx.Client(base_url=base, timeout=PATIENCE, trust_env=False) as http:
            try:
                while not over.is_set():
                    self.say(http)
            except httpx.TransportError:
                return

    def say(self, http: httpx.Client) -> None:
        """One message."""
        number = self.sent
        self.sent += 1
        path, text = f"/v1/sessions/{self.key}/messages", f"{self.key}-{number}\n!sleep 0.0{number % 4}"
        if number % 2:
            self._stream(http, path, text, number)
            return
        answer = http.post(path, json={"text": text})
        if answer.status_code != 200:
            self.refused[answer.status_code] += 1
            return
        self.heard.add(number)
        body = answer.json()
        self.sessions.add(body["session_id"])
        if body["status"] == "completed":
            self.answered.add(number)

    def _stream(self, http: httpx.Client, path: str, text: str, number: int) -> None:
        with http.stream("POST", path, json={"text": text, "stream": True}) as answer:
            if answer.status_code != 200:
                self.refused[answer.status_code] += 1
                return
            for line in answer.iter_lines():
                event = json.loads(line[6:]) if line.startswith("data: ") else {}
                if event.get("type") == "session.message.started":
                    self.heard.add(number)
                    self.sessions.add(event["session_id"])
                elif event.get("type") == "session.message.completed":
                    self.answered.add(number)

    def recall(self, base: str) -> list[str]:
        """What its agent knows of it."""
        with httpx.Client(base_url=base, timeout=PATIENCE, trust_env=False) as http:
            answer = http.post(f"/v1/sessions/{self.key}/messages", json={"text": "!recall"})
            answer.raise_for_status()
            return [line for line in answer.json()["text"].splitlines() if not line.startswith("!sleep")]


@dataclass(frozen=True)
class Said:
    """A question in the store, and whether its answer stands behind it."""

    number: int
    answered: bool


def stored(folder: Path, key: str) -> tuple[str | None, list[tuple[str, str]]]:
    """The session of a key and its transcript."""
    with closing(sqlite3.connect(f"file:{folder / DATABASE}?mode=ro", uri=True, timeout=30)) as db:
        row = db.execute(MINE, (f"/{key}",)).fetchone()
        return (None, []) if row is None else (row[0], db.execute(ROWS, row).fetchall())


def judge(talker: Talker, folder: Path) -> list[str]:
    """Everything that is wrong with one conversation."""
    session, rows = stored(folder, talker.key)
    broken = []
    said: list[Said] = []
    for place, (role, text) in enumerate(rows):
        if role != "user":
            continue
        number = int(text.partition("\n")[0].rpartition("-")[2])
        follows = rows[place + 1] if place + 1 < len(rows) else ("", "")
        said.append(Said(number, follows == ("assistant", f"echo: {talker.key}-{number}")))
    numbers = [each.number for each in said]
    if len(set(numbers)) != len(numbers):
        broken.append(f"{talker.key}: doubled {[number for number, many in Counter(numbers).items() if many > 1]}")
    if numbers != sorted(numbers):
        broken.append(f"{talker.key}: out of order")
    if lost := talker.heard - set(numbers):
        broken.append(f"{talker.key}: lost the acknowledged {sorted(lost)}")
    if lost := talker.answered - {each.number for each in said if each.answered}:
        broken.append(f"{talker.key}: lost the answers of {sorted(lost)}")
    if len(talker.sessions) > 1 or (session is not None and not talker.sessions <= {session}):
        broken.append(f"{talker.key}: {len(talker.sessions)} sessions")
    return broken


def mirror_differs(talker: Talker, folder: Path) -> bool:
    """Whether the mirror says something else than the store."""
    session, rows = stored(folder, talker.key)
    file = folder / MIRRORS / f"{session}.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [(line["role"], line["text"]) for line in lines] != rows
