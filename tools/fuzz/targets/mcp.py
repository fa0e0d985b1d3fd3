"""The bridge's end of the socket: a relay that may say anything, and strangers who know no token."""

import json
from random import Random

from ostler.bridge.bindings import RejectReason, RelayPeer
from ostler.bridge.connection import SocketConnection
from ostler.bridge.conversation import McpClient
from ostler.bridge.hello import Hello
from ostler.bridge.session_binding import SessionBinding
from tools.fuzz.target import Target
from tools.fuzz.targets.pipe import bound

TOKEN = "0" * 32
HELLO = f"OSTLER/1 1 {TOKEN}\n".encode()
FRAME_LIMIT = 64 * 1024
MOST_ANSWERS = 101
"""A batch holds a hundred messages; each has one answer. Somebody else's newline may make several frames of one."""


class Wires:
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


class Porter:
    """Knows one token."""

    def __init__(self, binding: SessionBinding) -> None:
        self.binding = binding

    def arrive(self, connection: SocketConnection) -> None: ...

    def leave(self, connection: SocketConnection) -> None: ...

    def greet(self, connection: SocketConnection, said: Hello | RejectReason) -> McpClient | None:
        if isinstance(said, Hello) and said.token == TOKEN:
            return self.binding.connect(connection, resumed=False)
        return None


class Socket:
    """One connection that was let in and lives on, and one stranger for each frame."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._binding = bound()
        self._porter = Porter(self._binding)
        self._relay, self._wires = self._connect()
        self._relay.data_received(HELLO)

    def take(self, frame: bytes) -> None:
        at = self._rng.randrange(len(frame) + 1)
        for piece in (frame[:at], frame[at:] + b"\n"):
            if piece:
                self._relay.data_received(piece)
        many = len(self._answers(self._wires))
        if many > MOST_ANSWERS * (frame.count(b"\n") + 1):
            raise AssertionError(f"{many} answers to one frame")
        if self._wires.closed:
            raise AssertionError("the relay was cut off for what it said")
        self._stranger(frame)

    def end(self) -> None:
        self._binding.revoke()
        self._relay.connection_lost(None)

    def _stranger(self, frame: bytes) -> None:
        """Whatever is said without a token, or after a wrong one, is answered with a refusal or not at all."""
        stranger, wires = self._connect()
        first = b"" if self._rng.random() < 0.5 else HELLO.replace(b"0000", b"0001", 1)
        stranger.data_received(first + frame + b"\n" + frame + b"\n")
        for answer in self._answers(wires):
            if "error" not in answer:
                raise AssertionError(f"a stranger was told {answer}")
        stranger.connection_lost(None)

    def _connect(self) -> tuple[SocketConnection, Wires]:
        connection, wires = SocketConnection(self._porter, serial=1, peer=RelayPeer(), frame_limit=FRAME_LIMIT), Wires()
        connection.connection_made(wires)  # type: ignore[arg-type] # a transport by shape
        return connection, wires

    def _answers(self, wires: Wires) -> list[dict[str, object]]:
        """Everything that was written is whole lines of JSON objects."""
        told, wires.written = b"".join(wires.written), []
        if told and not told.endswith(b"\n"):
            raise AssertionError(f"half a line was written: {told[-200:]!r}")
        answers = [json.loads(line) for line in told.splitlines()]
        if not all(isinstance(answer, dict) and ("id" in answer or "method" in answer) for answer in answers):
            raise AssertionError(f"no message: {answers}")
        return answers


TARGET = Target("mcp", "mcp", Socket)
