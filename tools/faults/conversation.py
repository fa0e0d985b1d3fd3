"""One conversation over HTTP, every message and every tool result of it with a word of its own.

Rules:
- A message is sent once. What was not acknowledged is not sent again: if it is there twice, the gateway did that.
- Acknowledged is a message with its answer, or with the event of its stream that says it was begun; an answer and the
  result of a tool with the end of theirs. Nothing counts before we have read it.
- Half of them are chats on `/v1/sessions`, where the gateway's own tool says whose call it was; half are conversations
  on `/v1/responses` whose function is ours.
"""

import asyncio
import json
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from tools.faults import canary
from tools.faults.gate import Gate

SESSION = "x-ostler-session-id"
LOOK_UP = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {"of": {}}}}
CHAT = "session.message"
BEGUN = {f"{CHAT}.started", "response.in_progress"}
ENDED = {f"{CHAT}.completed", "response.completed"}


@dataclass
class Conversation:
    """What one client said and was told."""

    number: int
    model: str = "demo"
    sent: int = 0
    heard: set[int] = field(default_factory=set)
    """Questions that were acknowledged."""
    answered: set[int] = field(default_factory=set)
    results: set[int] = field(default_factory=set)
    """Tool results that were acknowledged."""
    told: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    uncalled: str = ""
    """The last answer of an agent that should have called and did not."""
    seconds: list[tuple[float, float]] = field(default_factory=list)
    """When a turn ended well and how long it took."""

    @property
    def chat(self) -> bool:
        return self.number % 2 == 0

    @property
    def name(self) -> str:
        return f"talk-{self.number}"

    async def live(self, gate: Gate, chance: random.Random, pause: float, turns: float = math.inf) -> None:
        """Turn after turn for as long as there is a gateway, or so many."""
        while self.sent < turns and await gate.enter():
            try:
                began = asyncio.get_running_loop().time()
                if await self.turn(gate.http, chance):
                    now = asyncio.get_running_loop().time()
                    self.seconds.append((now, now - began))
            except httpx.TimeoutException as error:
                self.wrong.append(f"{self.name}: no answer to turn {self.sent}: {error!r}")
            except httpx.TransportError:
                self.told["cut off"] += 1
            finally:
                gate.leave()
            await asyncio.sleep(pause * 2 * chance.random())

    async def turn(self, http: httpx.AsyncClient, chance: random.Random) -> bool:
        """One question, and what belongs to it. Whether it was answered."""
        self.sent += 1
        turn = self.sent
        question, lot = canary.word(self.number, turn, canary.QUESTION), chance.random()
        before = len(self.answered)
        if lot < 0.1:
            await self._recall(http, turn)
        elif lot < 0.4:
            await self._ask(http, turn, f"{question}\n!sleep {chance.random() / 10:.3f}", stream=chance.random() < 0.5)
        elif self.chat:
            await self._ask(http, turn, f"{question}\n!call session_info {{}}", stream=chance.random() < 0.3)
        else:
            await self._call(http, turn, question)
        return len(self.answered) > before

    async def recall(self, http: httpx.AsyncClient) -> httpx.Response:
        """What the agent knows of it, or why it does not say so."""
        self.sent += 1
        question = canary.word(self.number, self.sent, canary.QUESTION)
        return await self._post(http, f"{question}\n!recall")

    async def _recall(self, http: httpx.AsyncClient, turn: int) -> None:
        self.sent -= 1
        answer = await self.recall(http)
        if self._taken(answer):
            self.heard.add(turn)
            self.told[answer.json()["status"]] += 1
            if completed(answer):
                self.answered.add(turn)

    async def _ask(self, http: httpx.AsyncClient, turn: int, text: str, *, stream: bool) -> None:
        if stream:
            await self._stream(http, turn, text)
            return
        answer = await self._post(http, text)
        if self._taken(answer):
            document = answer.json()
            self.heard.add(turn)
            self.told[document["status"]] += 1
            if document["status"] == "completed":
                self.answered.add(turn)
                self._is_mine(answer)

    async def _stream(self, http: httpx.AsyncClient, turn: int, text: str) -> None:
        path, body = self._request(text)
        async with http.stream("POST", path, json={**body, "stream": True}) as answer:
            if answer.status_code != 200:
                await answer.aread()
                self._taken(answer)
                return
            async for line in answer.aiter_lines():
                self.look(line)
                kind = json.loads(line[6:]).get("type") if line.startswith("data: {") else None
                if kind in BEGUN:
                    self.heard.add(turn)
                elif kind in ENDED:
                    self.answered.add(turn)
                    self.told["completed"] += 1

    async def _call(self, http: httpx.AsyncClient, turn: int, question: str) -> None:
        """The agent calls a function of ours, and we answer."""
        arguments = json.dumps({"of": canary.word(self.number, turn, canary.ARGUMENT)})
        first = await self._post(http, f"{question}\n!call look_up {arguments}")
        if not self._taken(first):
            return
        self.heard.add(turn)
        calls = [item for item in first.json()["output"] if item["type"] == "function_call"]
        if not calls:
            self.told[f"no call, {first.json()['status']}"] += 1
            self.uncalled = first.text[first.text.find('"output"') :][:500]
            return
        if calls[0]["arguments"].count(canary.word(self.number, turn, canary.ARGUMENT)) != 1:
            self.wrong.append(f"{self.name}: turn {turn} was asked to call {calls[0]['arguments'][:200]}")
        said = canary.word(self.number, turn, canary.RESULT)
        output = {"type": "function_call_output", "call_id": calls[0]["call_id"], "output": said}
        second = await self._post(http, [output])
        if self._taken(second):
            self.results.add(turn)
            document = second.json()
            self.told[document["status"]] += 1
            if document["status"] == "completed":
                self.answered.add(turn)
                if said not in second.text:
                    self._explain(turn, second.text)

    async def _post(self, http: httpx.AsyncClient, said: Any) -> httpx.Response:
        path, body = self._request(said)
        answer = await http.post(path, json=body)
        self.look(answer.text)
        return answer

    def _request(self, said: Any) -> tuple[str, dict[str, Any]]:
        if self.chat:
            return f"/v1/sessions/{self.name}/messages", {"text": said}
        return "/v1/responses", {"model": self.model, "input": said, "conversation": self.name, "tools": [LOOK_UP]}

    def _taken(self, answer: httpx.Response) -> bool:
        if answer.status_code == 200:
            return True
        self.told[f"refused with {answer.status_code}, {answer.json()['error']['code']}"] += 1
        if answer.status_code == 500:
            self.wrong.append(f"{self.name}: {answer.text[:300]}")
        return False

    def _is_mine(self, answer: httpx.Response) -> None:
        """A tool of the gateway says which session called it."""
        text = answer.json().get("text", "")
        if "session_id" in text and answer.headers[SESSION] not in text:
            self.wrong.append(f"{self.name}: the tool took it for another session: {text[:300]}")

    def _explain(self, turn: int, text: str) -> None:
        """A result that the agent does not repeat: its tool server died under the call, or the agent did, and another
        one was told the whole conversation. Both say so."""
        for reason, sign in (("asked again", "the results of your tool calls"), ("tool server gone", "error: ")):
            if sign in text:
                self.told[reason] += 1
                return
        self.wrong.append(f"{self.name}: turn {turn} did not hear the result of its tool: {text[:700]}")

    def look(self, text: str) -> None:
        """Nothing of anybody else's."""
        if strange := canary.owners(text) - {self.number}:
            self.wrong.append(f"{self.name}: was told words of {sorted(strange)}: {text[:300]}")


def completed(answer: httpx.Response) -> bool:
    """Whether it is the whole of an answer."""
    return answer.status_code == 200 and answer.json()["status"] == "completed"
