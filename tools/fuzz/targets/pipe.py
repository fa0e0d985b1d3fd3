"""MCP over ACP: what an agent may say over its own pipe to the tools that were declared on it."""

import itertools
from pathlib import Path
from random import Random

from ostler.bridge.binding import Binding
from ostler.bridge.channels.acp import AcpChannel
from ostler.bridge.doors import Channels
from ostler.bridge.runner import Runner
from ostler.bridge.session_binding import SessionBinding, relay_command
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.stats import Stats
from ostler.bridge.toolbox import Toolboxes
from ostler.wire.json import JsonObject, encode_line
from ostler.wire.rpc import Notification, Peer, Request, RpcFault
from tools.fuzz.target import Target

HERE = Path("/nowhere")
ECHO = {"name": "echo", "inputSchema": {"type": "object"}}


def bound() -> SessionBinding:
    """A binding whose tools are known and not published: calls are answered, and none needs a loop."""
    settings, boxes, stats = BridgeSettings(data_directory=HERE), Toolboxes(), Stats()
    return SessionBinding(
        Binding(boxes.of([ECHO]), max_calls=4),
        token="0" * 32,
        relay=relay_command("ostler", HERE, "0" * 32),
        settings=settings,
        toolboxes=boxes,
        runner=Runner(deadline=1, clock=lambda: 0.0, stats=stats),
        stats=stats,
        channels=Channels(None, AcpChannel),
        on_revoked=lambda _binding: None,
        on_dismissed=lambda _binding: None,
    )


class Pipe:
    """One channel with one declared binding; each request must be answered, and at once."""

    def __init__(self, _rng: Random) -> None:
        numbers = itertools.count(1)
        self._peer: Peer[str] = Peer(versioned=True, limit=64 * 1024)
        self._channel = AcpChannel(self._told, ids=lambda: f"id{next(numbers)}")
        self._binding = bound()
        self._channel.declare(self._binding)

    def take(self, frame: bytes) -> None:
        for message in self._peer.receive(frame + b"\n"):
            if isinstance(message, Notification):
                self._channel.notice(message.method, message.params)
            elif isinstance(message, Request):
                answers: list[JsonObject | RpcFault] = []
                self._channel.request(message.id, message.method, message.params, answers.append)
                (answer,) = answers
                encode_line(answer if not isinstance(answer, RpcFault) else {"error": answer.message})

    def end(self) -> None:
        self._binding.revoke()
        self._channel.close()

    def _told(self, method: str, params: JsonObject) -> None:
        encode_line({"method": method, "params": params})


TARGET = Target("pipe", "pipe", Pipe)
