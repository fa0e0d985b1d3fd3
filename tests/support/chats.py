"""A chat face over HTTP, as a test sees it: messages by key, and what became of them in the database."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.served import SESSION, Served, events_of


@dataclass
class Chat:
    """One conversation."""

    served: Served
    key: str = "k"

    @property
    def path(self) -> str:
        """The route of it."""
        return f"/v1/sessions/{quote(self.key, safe='')}"

    async def send(self, text: str, **fields: Any) -> httpx.Response:
        """POST a message."""
        return await self.served.http.post(f"{self.path}/messages", json={"text": text, **fields})

    async def said(self, text: str, **fields: Any) -> dict[str, Any]:
        """The whole of an answer that must be good."""
        answer = await self.send(text, **fields)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        assert answer.headers.get(SESSION) == body["session_id"]
        return body

    async def text(self, text: str) -> str:
        """What was answered."""
        return str((await self.said(text))["text"])

    async def stream(self, text: str) -> list[dict[str, Any]]:
        """Every event of a streamed answer."""
        body = {"text": text, "stream": True}
        async with self.served.http.stream("POST", f"{self.path}/messages", json=body) as answer:
            return events_of((await answer.aread()).decode())

    async def session(self) -> dict[str, Any]:
        """The session of the key."""
        found = await self.served.http.get(self.path)
        assert found.status_code == 200, found.text
        body: dict[str, Any] = found.json()
        return body

    def routed(self) -> str | None:
        """Where the key leads, by the database."""
        rows = self.served.rows("select session_id from routing where session_key = ?", f"/{self.key}")
        return rows[0][0] if rows else None


def texts(served: Served, session_id: str) -> list[tuple[str, str]]:
    """(role, text) of every active message of a session."""
    found = served.rows("select role, text from messages where session_id = ? and active order by id", session_id)
    return [(role, text) for role, text in found]


def ended(served: Served, session_id: str) -> str | None:
    """Why a session ended."""
    ((reason,),) = served.rows("select end_reason from sessions where id = ?", session_id)
    return None if reason is None else str(reason)
