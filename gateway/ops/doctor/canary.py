"""The two-session canary: two sessions of one process, each with a secret word and a tool. Does either see the other's?

Rules:
- Only behaviour is proof. An agent that repeats its own word and calls its own tool has shown that it could have shown
  the other's; an agent that does neither proves nothing.
- The words are random and made for this run, so no other text can look like them.
- Each prompt is a plain sentence for a model, followed by the same as an order for the demo agent.
"""

from dataclasses import dataclass, field

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.session_binding import SessionBinding
from ostler.gateway.ops.doctor.report import Canary, Finding, Severity
from ostler.pool.errors import PoolError
from ostler.pool.events import Finished, StopReason, Text
from ostler.pool.lease import Lease
from ostler.pool.ports import ToolSet
from ostler.wire.json import JsonObject

TOOL = "ostler_canary"
DEFINITION: JsonObject = {
    "name": TOOL,
    "description": "Returns this session's own secret word. Takes nothing.",
    "inputSchema": {"type": "object", "properties": {}},
}
TOOLS = ToolSet((DEFINITION,))
REMEMBER = "Remember this word, I shall ask you for it later: {word}. Answer with OK and nothing else."
RECALL = "Which word did I ask you to remember? Answer with that word and nothing else, or with NONE.\n!recall"
CALL = f"Call the tool {TOOL} now, without arguments, and answer with exactly what it returned.\n!call {TOOL} {{}}"


class TurnFailed(PoolError):
    """A turn of the canary failed or was cut short."""

    def __init__(self, asked: str, why: str) -> None:
        super().__init__(f"the turn {asked.partition(':')[0][:40]!r} failed: {why}")
        self.why = why


@dataclass
class Bird:
    """One of the two sessions, with everything it returned."""

    lease: Lease
    word: str
    secret: str
    said: list[str] = field(default_factory=list)
    """The texts of the answers."""
    heard: list[str] = field(default_factory=list)
    """All events as text, including those that are no text."""
    calls: int = 0

    def offer(self) -> None:
        """Publish the tool on this session's binding: a call with this session's token returns this session's
        secret."""
        ticket = self.lease.ticket
        if not isinstance(ticket, SessionBinding):
            raise TypeError("the canary runs with a bridge")
        ticket.publish(TOOLS.definitions, self.answer)

    async def answer(self, _call: ToolCall) -> CallResult:
        """Answer a call of the tool, and count it."""
        self.calls += 1
        return CallResult.text(self.secret)

    async def ask(self, text: str) -> str:
        """Run one turn to its end. Raises `TurnFailed`."""
        answer = []
        async for event in await self.lease.prompt(text):
            self.heard.append(str(event))
            if isinstance(event, Text):
                answer.append(event.text)
            elif isinstance(event, Finished) and event.reason is not StopReason.DONE:
                raise TurnFailed(text, event.detail or event.reason.value)
        self.said.append("".join(answer))
        return self.said[-1]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the canary."""

    canary: Canary
    findings: tuple[Finding, ...]


async def sing(one: Bird, other: Bird) -> Verdict:
    """Ask both sessions in turn. Raises `PoolError` if a turn fails."""
    birds = (one, other)
    for bird in birds:
        bird.offer()
        await bird.ask(REMEMBER.format(word=bird.word))
    recalled = [bird.word in await bird.ask(RECALL) for bird in birds]
    called = []
    for bird, neighbour in (birds, birds[::-1]):
        before = neighbour.calls
        answered = await bird.ask(CALL)
        if neighbour.calls != before:
            return leak("a tool call of one session arrived as the other's")
        called.append(bird.calls > 0 and bird.secret in answered)
    for bird, neighbour in (birds, birds[::-1]):
        if any(word in text for word in (neighbour.word, neighbour.secret) for text in bird.heard):
            return leak("one session told what only the other one knew")
    return judged(recalled, called)


def leak(what: str) -> Verdict:
    """The verdict that a session saw something of the other."""
    fix = "do not share this agent between people: pool.enabled = false, and tell the authors of ostler"
    return Verdict(Canary.LEAK, (Finding(Severity.FAULT, what, fix),))


def judged(recalled: list[bool], called: list[bool]) -> Verdict:
    """The verdict when nothing leaked: private if both sessions proved that they could have leaked, else unproven."""
    if all(recalled) and all(called):
        return Verdict(Canary.PRIVATE, ())
    found = []
    if not all(called):
        text = "tools do not reach its sessions, or its model did not call one when it was told to"
        found.append(Finding(Severity.WARNING, text, "look at the agent's own rules for tools, and try another model"))
    if not all(recalled):
        text = "its model did not repeat a word it was told two turns before, so nothing is proven of memory"
        found.append(Finding(Severity.WARNING, text, "try another model"))
    return Verdict(Canary.UNPROVEN, tuple(found))
