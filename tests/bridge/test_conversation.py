"""What a client is owed while it is away or does not read: bounded, and one answer per request."""

import json
from pathlib import Path

from ostler.bridge.binding import Binding, BoundCall
from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.conversation import McpClient
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.stats import Stats
from ostler.bridge.toolbox import toolbox
from tests.support.relays import tool


class Paper:
    """An outlet that keeps what it is given and claims that so much of it is still waiting."""

    def __init__(self, waiting: int = 0) -> None:
        self.frames: list[bytes] = []
        self.waiting = waiting

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)


class Begun:
    """A runner that only remembers."""

    def __init__(self) -> None:
        self.calls: list[BoundCall] = []
        self.cancelled: list[BoundCall] = []

    def start(self, binding: Binding, call: BoundCall) -> None:
        self.calls.append(call)

    def cancel(self, call: BoundCall) -> None:
        self.cancelled.append(call)


async def never(call: ToolCall) -> CallResult:
    raise AssertionError(call)


def conversation(runner: Begun, stats: Stats, limit: int = 1000) -> McpClient:
    binding = Binding(toolbox([]), max_calls=100)
    binding.publish(toolbox([tool("a")]), never, None)
    settings = BridgeSettings(data_directory=Path("/nowhere"), outgoing_limit=limit)
    return McpClient(binding, settings=settings, runner=runner, stats=stats, on_attached=lambda: None)


def call(ident: int) -> bytes:
    params = {"name": "a", "_meta": {"progressToken": ident}}
    return json.dumps({"id": ident, "method": "tools/call", "params": params}).encode()


def test_answers_wait_for_the_same_client_in_a_bounded_space() -> None:
    runner, stats, paper = Begun(), Stats(), Paper()
    talk = conversation(runner, stats)
    for ident in range(10):
        talk.receive(call(ident))
    for begun in runner.calls:
        talk.progress(begun, 1)
        talk.answer(begun, CallResult.text("x" * 300))
    talk.connect(paper, resumed=True)
    replies = [json.loads(frame) for frame in paper.frames]
    assert [reply["id"] for reply in replies] == list(range(10))
    assert ["result" in reply for reply in replies] == [True, True, *[False] * 8]
    assert sum(map(len, paper.frames)) < 1000 + 8 * 200
    assert stats.frames_dropped == 18


def test_another_client_gets_nothing_of_it() -> None:
    runner, paper = Begun(), Paper()
    talk = conversation(runner, Stats())
    talk.receive(call(1))
    talk.receive(call(2))
    talk.binding.finish(runner.calls[0])
    talk.answer(runner.calls[0], CallResult.text("for the first client"))
    talk.connect(paper, resumed=False)
    talk.answer(runner.calls[1], CallResult.text("for the first client"))
    assert paper.frames == []
    assert runner.cancelled == [runner.calls[1]]
    assert talk.binding.calls == set()


def test_a_client_that_does_not_read_gets_short_errors_and_no_news() -> None:
    runner, stats, paper = Begun(), Stats(), Paper(waiting=950)
    talk = conversation(runner, stats)
    talk.connect(paper, resumed=False)
    talk.receive(call(1))
    talk.progress(runner.calls[0], 1)
    talk.answer(runner.calls[0], CallResult.text("x" * 300))
    (reply,) = [json.loads(frame) for frame in paper.frames]
    assert reply["error"]["code"] == -32603
    assert stats.frames_dropped == 2
