"""One connection over a transport of paper: what it answers, and when it stops."""

import asyncio
import json
from pathlib import Path

from ostler.bridge.binding import Binding, BoundCall
from ostler.bridge.bindings import RejectReason, RelayPeer
from ostler.bridge.connection import AT_ONCE, SocketConnection
from ostler.bridge.conversation import McpClient
from ostler.bridge.hello import Hello
from ostler.bridge.mcp import BATCH_LIMIT
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.stats import Stats
from ostler.bridge.toolbox import toolbox
from tests.support.relays import hello, tool
from tests.support.waiting import within

HIGH_WATER = 65536
TOKEN = "0" * 32
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
BIG = [tool(f"tool_{number}", "d" * 1000) for number in range(50)]


class Pipe:
    """A transport whose peer reads only when it is told to."""

    def __init__(self, connection: SocketConnection) -> None:
        self._connection = connection
        self.waiting = bytearray()
        self.reading = True
        self.closing = False
        self.written_after_close = 0

    def write(self, data: bytes, /) -> None:
        self.written_after_close += self.closing
        self.waiting += data
        if len(self.waiting) > HIGH_WATER:
            self._connection.pause_writing()

    def read(self) -> list[bytes]:
        """The peer takes everything that waits."""
        taken, self.waiting = bytes(self.waiting), bytearray()
        self._connection.resume_writing()
        return taken.splitlines()

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)


class Begun:
    def start(self, binding: Binding, call: BoundCall) -> None:
        """Nobody calls anything here."""

    def cancel(self, call: BoundCall) -> None:
        """As above."""


class Gate:
    """A bridge with one binding."""

    def __init__(self) -> None:
        settings = BridgeSettings(data_directory=Path("/nowhere"))
        self._conversation = McpClient(
            Binding(toolbox(BIG), max_calls=1),
            settings=settings,
            runner=Begun(),
            stats=Stats(),
            on_attached=lambda: None,
        )

    def arrive(self, connection: SocketConnection) -> None:
        """Everybody may come."""

    def greet(self, connection: SocketConnection, said: Hello | RejectReason) -> McpClient | None:
        if isinstance(said, RejectReason):
            return None
        self._conversation.connect(connection, resumed=True)
        return self._conversation

    def leave(self, connection: SocketConnection) -> None:
        """And go."""


def connected() -> tuple[SocketConnection, Pipe]:
    connection = SocketConnection(Gate(), serial=1, peer=RelayPeer(), frame_limit=1 << 20)
    pipe = Pipe(connection)
    connection.connection_made(pipe)  # type: ignore[arg-type] # by shape, like uvloop's
    return connection, pipe


def test_rf9_many_requests_at_once_do_not_pile_up_answers_that_nobody_reads() -> None:
    connection, pipe = connected()
    connection.data_received(hello(TOKEN) + LIST * 500)
    assert len(pipe.waiting) < 3 * HIGH_WATER
    assert not pipe.reading
    answered = 0
    while pipe.waiting:
        answered += len(pipe.read())
        assert len(pipe.waiting) < 3 * HIGH_WATER
    assert answered == 500
    assert pipe.reading
    connection.data_received(LIST)
    assert len(pipe.read()) == 1


def test_rf9_a_batch_is_as_long_as_somebody_may_ask_at_once() -> None:
    connection, pipe = connected()
    long = b"[" + b",".join([LIST.strip()] * (BATCH_LIMIT + 1)) + b"]\n"
    connection.data_received(hello(TOKEN) + long)
    (answer,) = pipe.read()
    assert json.loads(answer)["error"]["message"] == f"a batch may hold {BATCH_LIMIT} messages"


def test_w10_who_is_shown_the_door_is_not_answered_into_the_log() -> None:
    """A write to a transport that closes is dropped with a warning: one for each line that a stranger sent."""
    connection, pipe = connected()
    connection.data_received(b"OSTLER/9 1 x\n" + b"x" * 70_000 + b"\n" + LIST * 500)
    assert pipe.closing
    assert pipe.written_after_close == 0


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


async def test_n31_who_asks_and_asks_leaves_the_others_their_turn() -> None:
    connection, pipe = connected()
    connection.data_received(hello(TOKEN))
    connection.data_received(PING * 3 * AT_ONCE)
    assert len(pipe.read()) == AT_ONCE
    assert not pipe.reading, "it is not read from while some of it waits"
    connection.data_received(PING)
    answered = 0
    async with within(300, "every answer"):
        while answered < 2 * AT_ONCE + 1:
            await asyncio.sleep(0)
            taken = len(pipe.read())
            assert taken <= AT_ONCE
            answered += taken
    assert pipe.reading
