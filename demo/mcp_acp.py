"""A tool server behind the agent's own stdin and stdout: MCP over ACP, as the draft specifies it.

Rules of this file: a connection is opened by the id that the client declared; messages for unknown connection ids are
dropped. The inner message has no id of its own: its answer is the answer to the outer request.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue

from ostler.demo import frames
from ostler.demo.mcp_client import HANDSHAKE_TIMEOUT, McpError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ostler.demo.mcp_client import McpReply
    from ostler.demo.stdio import StdoutWriter


class AcpLines:
    """All MCP-over-ACP connections of one agent process."""

    def __init__(self, outlet: StdoutWriter, asked: dict[object, McpReply]) -> None:
        self._outlet = outlet
        self._asked = asked
        self._takers: dict[str, McpReply] = {}

    def ask(self, method: str, params: dict[str, object], reply: McpReply) -> int:
        """Send a request to the client; `reply` gets the answer, on the thread that reads stdin."""
        number = self._outlet.next_id()

        def once(frame: dict[str, object]) -> None:
            self._asked.pop(number, None)
            reply(frame)

        self._asked[number] = once
        self._outlet.send(frames.request(number, method, params))
        return number

    def tell(self, params: dict[str, object]) -> None:
        self._outlet.send(frames.notification("mcp/message", params))

    def hear(self, params: dict[str, object]) -> None:
        """Deliver a notification of the client to its connection."""
        take = self._takers.get(str(params.get("connectionId")))
        if take is not None:
            inner = params.get("params")
            take({"method": params.get("method"), "params": inner if isinstance(inner, dict) else {}})

    def join(self, connection: str, take: McpReply) -> None:
        self._takers[connection] = take

    def part(self, connection: str) -> None:
        self._takers.pop(connection, None)


class AcpCarrier:
    """One MCP connection over the agent's own stdin and stdout."""

    def __init__(self, entry: dict[str, object], lines: AcpLines) -> None:
        self._name = frames.text_field(entry, "name")
        self._server = frames.text_field(entry, "serverId")
        self._lines = lines
        self._take: McpReply = _nobody
        self._connection: str | None = None
        self._outer: dict[object, int] = {}
        self._lock = threading.Lock()

    def open(self, take: McpReply, _ended: Callable[[], None]) -> None:
        """Connect to the declared server. Raises McpError."""
        answers: SimpleQueue[dict[str, object]] = SimpleQueue()
        self._lines.ask("mcp/connect", {"serverId": self._server}, answers.put)
        try:
            answer = answers.get(timeout=HANDSHAKE_TIMEOUT)
        except Empty as error:
            raise McpError(self._name, f"no answer to mcp/connect within {HANDSHAKE_TIMEOUT:g} s") from error
        result = answer.get("result")
        connection = result.get("connectionId") if isinstance(result, dict) else None
        if not isinstance(connection, str):
            raise McpError(self._name, f"mcp/connect was refused: {answer.get('error')}")
        self._take, self._connection = take, connection
        self._lines.join(connection, take)

    def send(self, frame: dict[str, object]) -> None:
        if "method" not in frame or self._connection is None:
            return
        message: dict[str, object] = {
            "connectionId": self._connection,
            "method": frame["method"],
            "params": frame.get("params", {}),
        }
        if "id" in frame:
            self._ask(frame["id"], message)
        else:
            self._lines.tell({**message, "params": self._translated(message["params"])})

    def listen(self) -> None:
        """Nothing to do: the server's notifications arrive on the agent's stdin."""

    def hang_up(self) -> None:
        """Disconnect. Does not wait for the answer."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._lines.part(connection)
        try:
            self._lines.ask("mcp/disconnect", {"connectionId": connection}, _nobody)
        except OSError:  # the client is gone, and the connection with it
            return

    def close(self) -> None:
        self.hang_up()

    def _ask(self, inner: object, message: dict[str, object]) -> None:
        def settle(answer: dict[str, object]) -> None:
            with self._lock:
                self._outer.pop(inner, None)
            self._take({**answer, "id": inner})

        # Held while sending: the answer must not be handled before the number is stored.
        with self._lock:
            self._outer[inner] = self._lines.ask("mcp/message", message, settle)

    def _translated(self, params: object) -> object:
        """Replace the id in a cancellation: it must name the outer request."""
        if not isinstance(params, dict) or "requestId" not in params:
            return params
        with self._lock:
            return {**params, "requestId": self._outer.get(params["requestId"])}


def _nobody(_frame: dict[str, object]) -> None:
    """The default reply callback: the frame is not needed."""
