"""Where contract tests keep one provider: its recipe, scripted tools, and everything started, ended at the end.

Rules: agents are started by product code only (`launch`, `Transport.start`). Whatever a test leaves running is ended
here, and what is left of it then fails the test.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time
from typing import TypeVar

from ostler.pool.agent.per_home import PerHome
from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.transport import Transport
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.events import Finished, Text, TurnEvent
from ostler.pool.keys import TransportKey, canonical_cwd
from ostler.pool.launch.builder import launch
from ostler.pool.launch.settings import Deadlines
from ostler.pool.order import SeatOrder
from ostler.pool.permission import allow
from ostler.pool.ports import PermissionPolicy, ToolTicket
from ostler.pool.prompt import TextPart
from ostler.pool.provider import Approval, Provider, Sharing, ToolChannel
from ostler.process import ProcessSupervisor
from ostler.wire.json import JsonObject
from tests.support.tool_stage import Handler, Stage, StageTicket, tool
from tests.support.waiting import soon, within
from tests.support.witness import Witness, gone, tree
from tools.agents.recipes import Recipe

E = TypeVar("E")
DEADLINES = Deadlines(
    start=60, session_open=60, session_load=60, tools=60, prompt_inactivity=90, cancel_grace=20, close=20
)
"""Far above what an agent needs, for machines where everything runs at once: what hangs is found all the same."""
PATIENCE = 300.0


@dataclass
class Heard:
    """What came of a turn."""

    events: list[TurnEvent] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.of(Text))

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def finished(self) -> Finished:
        end = self.events[-1]
        assert isinstance(end, Finished), f"the last event is {end!r}"
        return end


async def hear(turn: AgentTurn) -> Heard:
    """Take every event of a turn."""
    heard = Heard()
    async with within(PATIENCE, f"the end of the turn; heard so far: {heard.events}"):
        async for event in turn:
            heard.events.append(event)
    return heard


async def begin(session: AgentSession, text: str) -> AgentTurn:
    """Send a prompt."""
    return await soon(session.prompt([TextPart(text)]), "the prompt being sent")


async def say(session: AgentSession, text: str) -> Heard:
    """Send a prompt and take everything that comes of it."""
    return await hear(await begin(session, text))


class ProviderHarness:
    """One provider under test."""

    def __init__(
        self, provider: Provider, recipe: Recipe, supervisor: ProcessSupervisor, stage: Stage, folder: Path
    ) -> None:
        self.provider = provider
        self.recipe = recipe
        self.stage = stage
        self._supervisor = supervisor
        self._per_home = PerHome()
        self._folder = folder
        self._transports: list[Transport] = []
        self._seen: set[Witness] = set()

    async def start(
        self,
        *,
        approval: Approval = Approval.AUTO,
        channel: ToolChannel | None = None,
        environ: Mapping[str, str] | None = None,
        deadlines: Deadlines = DEADLINES,
        prefix: Sequence[str] = (),
    ) -> Transport:
        """A process of this provider that has shaken hands."""
        settings = replace(
            self.recipe.settings, approval=approval, tool_channel=channel, deadlines=deadlines, prefix=tuple(prefix)
        )
        key = TransportKey(self.provider.name, self.recipe.model, self.cwd())
        plan = launch(self.provider, settings, key, os.environ if environ is None else environ)
        transport = await soon(
            Transport.start(plan, supervisor=self._supervisor, per_home=self._per_home, wall=time),
            "the handshake",
            PATIENCE,
        )
        self._transports.append(transport)
        return transport

    def cwd(self, name: str = "work") -> str:
        """A directory of this name."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return canonical_cwd(folder)

    def cwds(self, count: int) -> Sequence[str]:
        """Where that many sessions of one process may live: in one place, unless the provider shares per directory."""
        apart = self.provider.sharing is Sharing.PER_CWD
        return [self.cwd(f"work-{number}" if apart else "work") for number in range(count)]

    def order(
        self, *, cwd: str | None = None, ticket: ToolTicket | None = None, policy: PermissionPolicy = allow
    ) -> SeatOrder:
        return SeatOrder(cwd=cwd or self.cwd(), policy=policy, ticket=ticket)

    async def open(
        self,
        transport: Transport,
        *,
        cwd: str | None = None,
        ticket: ToolTicket | None = None,
        policy: PermissionPolicy = allow,
    ) -> AgentSession:
        """A session."""
        session = await soon(
            transport.open(self.order(cwd=cwd, ticket=ticket, policy=policy)), "an opened session", PATIENCE
        )
        self._seen |= tree(transport.pid)
        return session

    def tools(self, *names: str, word: str = "", handler: Handler | None = None) -> StageTicket:
        """Tools of these names, each of which answers with `word`."""

        async def answer(_name: str, _arguments: JsonObject) -> str:
            return word

        return self.stage.open([tool(name) for name in names], handler or answer)

    async def clear(self) -> None:
        """End everything; nothing may be left of any process that was seen."""
        for transport in self._transports:
            if transport.lost is None:
                self._seen |= tree(transport.pid)
            await soon(transport.close(), "the end of a transport")
        await gone(self._seen)
