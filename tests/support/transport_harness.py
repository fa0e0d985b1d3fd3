"""Transports for tests: the demo agent, and small scripted agents that misbehave in one way each. Real processes."""

import dataclasses
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ostler.pool.agent.per_home import PerHome
from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.transport import Transport
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.events import Finished, Text, TurnEvent
from ostler.pool.keys import TransportKey
from ostler.pool.launch.builder import Launch, launch
from ostler.pool.launch.settings import Deadlines, ProviderSettings
from ostler.pool.order import SeatOrder
from ostler.pool.permission import allow
from ostler.pool.ports import PermissionPolicy, ToolTicket
from ostler.pool.prompt import TextPart
from ostler.pool.provider import TRUSTED, Provider, Sharing
from ostler.pool.providers.acp import PROVIDER as ACP
from ostler.pool.providers.demo import PROVIDER as DEMO
from ostler.process import ProcessSupervisor
from tests.support.acp_oracle import check_sent

SCRIPTED = dataclasses.replace(ACP, sharing=Sharing.SESSIONS, seats_per_process=99, load=TRUSTED, parallel_opens=9)

PRELUDE = """
import json, os, sys, threading, time
def say(**frame):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\\n")
    sys.stdout.flush()
def answer(frame, result):
    say(id=frame["id"], result=result)
def refuse(frame, code, message, **more):
    say(id=frame["id"], error={"code": code, "message": message, **more})
def update(session, kind, **fields):
    say(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": kind, **fields}})
def text(session, words):
    update(session, "agent_message_chunk", content={"type": "text", "text": words})
def done(frame, reason="end_turn"):
    answer(frame, {"stopReason": reason})
ABLE = {"loadSession": True, "sessionCapabilities": {"close": {}}}
opened = 0
def frames(*own):
    global opened
    for line in sys.stdin:
        frame = json.loads(line)
        method = frame.get("method")
        if method in own:
            yield method, frame, frame.get("params", {}).get("sessionId")
        elif method == "initialize":
            answer(frame, {"protocolVersion": 1, "agentCapabilities": ABLE})
        elif method == "session/new":
            opened += 1
            answer(frame, {"sessionId": f"s{opened}"})
        elif method == "session/close":
            answer(frame, {})
        else:
            yield method, frame, frame.get("params", {}).get("sessionId")
"""


class TransportHarness:
    """Starts transports and ends them all."""

    def __init__(self, supervisor: ProcessSupervisor, folder: Path) -> None:
        self.supervisor = supervisor
        self.folder = folder
        self.per_home = PerHome()
        self.now = 1_800_000_000.0
        self._started: list[Transport] = []
        self._records = 0

    def plan(self, provider: Provider, settings: ProviderSettings) -> Launch:
        """One launch in this harness's own HOME."""
        settings = dataclasses.replace(settings, home=str(self.folder))
        return launch(provider, settings, TransportKey(provider.name, "m", str(self.folder)), os.environ)

    async def start(self, plan: Launch) -> Transport:
        """Started, and ended with the harness."""
        transport = await Transport.start(
            plan, supervisor=self.supervisor, per_home=self.per_home, wall=lambda: self.now
        )
        self._started.append(transport)
        return transport

    async def demo(self, *flags: str, provider: Provider = DEMO, **deadlines: float) -> Transport:
        """A demo agent that records what it is told."""
        self._records += 1
        record = self.folder / f"record-{self._records}"
        state = ("--state-dir", str(self.folder / "state"))
        settings = ProviderSettings(args=("--record", str(record), *state, *flags), deadlines=Deadlines(**deadlines))
        return await self.start(self.plan(provider, settings))

    async def scripted(self, script: str, *, provider: Provider = SCRIPTED, **deadlines: float) -> Transport:
        """A small agent of the test's own."""
        return await self.start(self.script_plan(script, provider=provider, **deadlines))

    def script_plan(self, script: str, *, provider: Provider = SCRIPTED, **deadlines: float) -> Launch:
        """Not started yet."""
        command = (sys.executable, "-S", "-c", PRELUDE + script)
        return self.plan(provider, ProviderSettings(command=command, deadlines=Deadlines(**deadlines)))

    def order(self, policy: PermissionPolicy = allow, ticket: ToolTicket | None = None) -> SeatOrder:
        """A seat in this harness's folder."""
        return SeatOrder(str(self.folder), policy, ticket=ticket)

    def frames(self) -> list[dict[str, Any]]:
        """Every frame that any recorded agent was sent."""
        lines = [line for path in self.folder.glob("record-*") for line in path.read_text().splitlines()]
        return [entry["frame"] for entry in map(json.loads, lines) if entry.get("kind", entry.get("event")) == "in"]

    def asked(self, method: str) -> int:
        """How often recorded agents were asked for something."""
        return sum(frame.get("method") == method for frame in self.frames())

    async def close(self) -> None:
        """End what was started."""
        for transport in self._started:
            await transport.close(hard=True)


@asynccontextmanager
async def transport_harness_in(folder: Path) -> AsyncIterator[TransportHarness]:
    """A harness whose every sent frame is checked by the oracle when it closes."""
    supervisor = await ProcessSupervisor.open(folder / "run", "test")
    harness = TransportHarness(supervisor, folder)
    try:
        yield harness
        await harness.close()
        check_sent(harness.frames())
    finally:
        await harness.close()
        await supervisor.aclose()


async def say(session: AgentSession, words: str) -> str:
    """One whole turn; the answer's text."""
    events = await hear(await session.prompt([TextPart(words)]))
    return text_of(events)


async def hear(turn: AgentTurn) -> list[TurnEvent]:
    """Every event of a turn."""
    return [event async for event in turn]


def text_of(events: Sequence[TurnEvent]) -> str:
    """The answer."""
    return "".join(event.text for event in events if isinstance(event, Text))


def end_of(events: Sequence[TurnEvent]) -> Finished:
    """The one end of a turn, which is its last event."""
    ends = [event for event in events if isinstance(event, Finished)]
    assert len(ends) == 1
    assert events[-1] is ends[0]
    return ends[0]
