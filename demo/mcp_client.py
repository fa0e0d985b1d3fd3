"""One MCP server of one session, independent of the carrier of its frames.

Rules of this file: the carrier's thread delivers the frames; each caller gets its answer by callback, exactly once,
also when the server ends. Tools are listed as soon as the server is up and again at every list_changed; a listing that
a newer one overtakes is dropped.
"""

from __future__ import annotations

import sys
import threading
from queue import Empty, SimpleQueue

from ostler.demo import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    McpReply = Callable[[dict[str, object]], None]
    ToolNames = Callable[[list[str]], None]

    class Carrier(Protocol):
        """Carries frames to a server and back."""

        def open(self, take: McpReply, ended: Callable[[], None]) -> None:
            """Connect. Raises McpError. From now on `take` gets the server's messages, on any thread."""

        def send(self, frame: dict[str, object]) -> None:
            """Send one frame. Raises OSError when the server no longer reads."""

        def listen(self) -> None:
            """The handshake is complete: the server may send notifications from now on."""

        def hang_up(self) -> None:
            """Ask the server to end. Does not wait."""

        def close(self) -> None:
            """End the connection, and its process if there is one."""


PROTOCOL = "2025-06-18"
SUPPORTED = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
HANDSHAKE_TIMEOUT = 30.0
MAX_PAGES = 1000


class McpError(Exception):
    """A tool server could not be used."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"tool server {name!r}: {reason}")


class McpServer:
    """One MCP server: requests, answers and its tool list."""

    def __init__(self, name: str, carrier: Carrier, *, follow: bool, on_tools: ToolNames) -> None:
        self.name = name
        self._carrier = carrier
        self._follow = follow
        self._on_tools = on_tools
        self._lock = threading.Lock()
        self._waiting: dict[int, McpReply] = {}
        self._listeners: list[ToolNames] = []
        self._tools: list[str] | None = None
        self._listing = 0
        self._numbers = 0
        self._ended = False

    def start(self) -> None:
        """Connect to the server, do the handshake, ask for its tools. Raises McpError."""
        self._carrier.open(self._take, self._end)
        self._shake_hands()
        self._carrier.listen()
        self._list()

    def request(self, method: str, params: dict[str, object], reply: McpReply) -> int:
        """Send a request; `reply` gets its answer, or an error if the server ends, on another thread."""
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._waiting[number] = reply
            ended = self._ended
        if ended or not self._send(frames.request(number, method, params)):
            self._settle(number, self._ended_answer())
        return number

    def give_up(self, number: int) -> None:
        """Cancel a request at the server: its caller no longer waits."""
        with self._lock:
            waited = self._waiting.pop(number, None)
        if waited is not None:
            params: dict[str, object] = {"requestId": number, "reason": "the turn was cancelled or timed out"}
            self._send(frames.notification("notifications/cancelled", params))

    def when_listed(self, listener: ToolNames) -> None:
        """Call `listener` with the tool names: now, or as soon as a running listing is done."""
        with self._lock:
            names = self._tools
            if names is None and not self._ended:
                self._listeners.append(listener)
                return
        listener(names or [])

    def hang_up(self) -> None:
        """Ask the server to end. Does not wait."""
        self._carrier.hang_up()

    def close(self) -> None:
        """End the connection, and its process if there is one."""
        self._carrier.close()

    def _shake_hands(self) -> None:
        answers: SimpleQueue[dict[str, object]] = SimpleQueue()
        params: dict[str, object] = {
            "protocolVersion": PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": "ostler-demo", "version": "1"},
        }
        self.request("initialize", params, answers.put)
        try:
            answer = answers.get(timeout=HANDSHAKE_TIMEOUT)
        except Empty as error:
            raise McpError(self.name, f"no answer to initialize within {HANDSHAKE_TIMEOUT:g} s") from error
        result = answer.get("result")
        if not isinstance(result, dict):
            raise McpError(self.name, f"initialize was refused: {answer.get('error')}")
        if result.get("protocolVersion") not in SUPPORTED:
            raise McpError(self.name, f"it speaks protocol {result.get('protocolVersion')!r}, we {SUPPORTED}")
        self._send(frames.notification("notifications/initialized"))

    def _list(self) -> None:
        with self._lock:
            self._listing += 1
            self._tools = None
            listing = self._listing
        self._ask_page(listing, [], None)

    def _ask_page(self, listing: int, names: list[str], cursor: object, pages: int = 1) -> None:
        def page(frame: dict[str, object]) -> None:
            result = frame.get("result")
            found = result if isinstance(result, dict) else {}
            tools = found.get("tools")
            rows = tools if isinstance(tools, list) else []
            names.extend(str(row["name"]) for row in rows if isinstance(row, dict) and "name" in row)
            following = found.get("nextCursor")
            if following is not None and pages < MAX_PAGES:
                self._ask_page(listing, names, following, pages + 1)
            else:
                self._listed(listing, names)

        self.request("tools/list", {} if cursor is None else {"cursor": cursor}, page)

    def _listed(self, listing: int, names: list[str]) -> None:
        with self._lock:
            if listing != self._listing:
                return
            self._tools = names
            listeners, self._listeners = self._listeners, []
        self._on_tools(names)
        for listener in listeners:
            listener(names)

    def _take(self, frame: dict[str, object]) -> None:
        method = frame.get("method")
        if method is None:
            number = frame.get("id")
            if isinstance(number, int):
                self._settle(number, frame)
        elif "id" in frame:
            self._answer(frame)
        elif method == "notifications/tools/list_changed" and self._follow:
            self._list()

    def _answer(self, frame: dict[str, object]) -> None:
        if frame["method"] == "ping":
            self._send(frames.result(frame["id"], {}))
        else:
            error = frames.RpcError(frames.METHOD_NOT_FOUND, f"the demo agent offers no {frame['method']}")
            self._send(frames.failure(frame["id"], error))

    def _settle(self, number: int, frame: dict[str, object]) -> None:
        with self._lock:
            reply = self._waiting.pop(number, None)
        if reply is not None:
            reply(frame)

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            waiting = list(self._waiting)
        for number in waiting:
            self._settle(number, self._ended_answer())

    def _ended_answer(self) -> dict[str, object]:
        error = frames.RpcError(frames.INTERNAL_ERROR, f"tool server {self.name!r} has ended")
        return frames.failure(None, error)

    def _send(self, frame: dict[str, object]) -> bool:
        try:
            self._carrier.send(frame)
        except OSError as error:
            print(f"demo agent: tool server {self.name!r} does not listen: {error}", file=sys.stderr)
            return False
        return True
