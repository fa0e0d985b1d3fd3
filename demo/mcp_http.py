"""A tool server behind Streamable HTTP.

Rules of this file: a request has a connection and a thread of its own, so that a slow call delays no other; a
notification is delivered before `send` returns. A request always gets an answer: the server's, its refusal, or the
transport error. Notifications arrive on one stream, which lasts as long as the server keeps it open.
"""

from __future__ import annotations

import json
import socket
import threading

from ostler.demo import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.client import HTTPConnection, HTTPResponse

    from ostler.demo.mcp_client import McpReply

SESSION = "Mcp-Session-Id"
VERSION = "MCP-Protocol-Version"
EVENTS = "text/event-stream"
GRACE = 1.0


class HttpCarrier:
    """One session with the server at one URL."""

    def __init__(self, entry: dict[str, object]) -> None:
        self._address, self._path = _place(frames.text_field(entry, "url"))
        self._headers = {
            frames.text_field(row, "name"): frames.text_field(row, "value")
            for row in frames.list_field({"headers": [], **entry}, "headers")
        }
        self._take: McpReply = _nobody
        self._news: socket.socket | None = None
        self._closed = False

    def open(self, take: McpReply, _ended: Callable[[], None]) -> None:
        """Store the callback. Nothing is started: the first request shows whether the server is reachable."""
        self._take = take

    def send(self, frame: dict[str, object]) -> None:
        if "id" in frame and "method" in frame:
            threading.Thread(target=self._ask, args=(frame,), name=f"mcp {self._address}", daemon=True).start()
        else:
            self._deliver("POST", frame)

    def listen(self) -> None:
        """Read notifications from a stream of their own."""
        threading.Thread(target=self._hear, name=f"mcp news {self._address}", daemon=True).start()

    def hang_up(self) -> None:
        """End the notification stream. Does not wait."""
        self._closed = True
        if self._news is not None:
            try:
                self._news.shutdown(socket.SHUT_RDWR)
            except OSError:  # the server closed it first
                return

    def close(self) -> None:
        """Tell the server that it need not keep the session."""
        self.hang_up()
        try:
            self._deliver("DELETE", timeout=GRACE)
        except OSError:  # the server is gone, and the session with it
            return

    def _ask(self, frame: dict[str, object]) -> None:
        import http.client  # noqa: PLC0415 - costs more than the interpreter; already loaded by the exchange

        answered = False
        try:
            connection, response = self._exchange("POST", frame)
            if response.headers.get(SESSION):
                self._headers[SESSION] = str(response.headers[SESSION])
            for answer in _frames_of(response):
                answered = answered or "method" not in answer
                self._learn_version(answer)
                # A refusal of the whole request names no id.
                self._take({**answer, "id": frame["id"]} if "method" not in answer else answer)
            connection.close()
            why = f"HTTP {response.status} without an answer"
        except (OSError, http.client.HTTPException) as error:
            why = f"{type(error).__name__}: {error}"
        if not answered:
            self._take(frames.failure(frame["id"], frames.RpcError(frames.INTERNAL_ERROR, why)))

    def _deliver(self, method: str, frame: dict[str, object] | None = None, timeout: float | None = None) -> None:
        """Send a request whose answer is not needed. Raises OSError."""
        import http.client  # noqa: PLC0415 - as above

        try:
            connection, response = self._exchange(method, frame, timeout=timeout)
            response.read()
            connection.close()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error

    def _hear(self) -> None:
        import http.client  # noqa: PLC0415 - as above

        try:
            connection, response = self._exchange("GET", news=True)
            for frame in _frames_of(response) if response.status == 200 else ():
                self._take(frame)
            connection.close()
        except (OSError, http.client.HTTPException):  # optional: the tools are listed without notifications too
            return

    def _exchange(
        self, method: str, frame: dict[str, object] | None = None, *, news: bool = False, timeout: float | None = None
    ) -> tuple[HTTPConnection, HTTPResponse]:
        from http.client import HTTPConnection  # noqa: PLC0415 - costs more than the interpreter

        connection = HTTPConnection(self._address, timeout=timeout)
        connection.connect()
        if news:
            self._news = connection.sock
            if self._closed:
                raise ConnectionAbortedError("hung up")
        body = None if frame is None else frames.encode(frame)
        accept = EVENTS if method == "GET" else f"application/json, {EVENTS}"
        headers = {**self._headers, "Accept": accept, "Content-Type": "application/json"}
        connection.request(method, self._path, body=body, headers=headers)
        return connection, connection.getresponse()

    def _learn_version(self, answer: dict[str, object]) -> None:
        result = answer.get("result")
        if isinstance(result, dict) and isinstance(result.get("protocolVersion"), str):
            self._headers[VERSION] = str(result["protocolVersion"])


def _nobody(_frame: dict[str, object]) -> None:
    """The callback before `open`: no frame is expected."""


def _place(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    address, slash, path = rest.partition("/")
    if scheme != "http" or not address:
        raise frames.RpcError(frames.INVALID_PARAMS, f"url must be http://host:port/path, got {url[:80]!r}")
    return address, slash + path or "/"


def _frames_of(response: HTTPResponse) -> Iterator[dict[str, object]]:
    """The messages of a response: one document, or an event stream with one message each."""
    if not str(response.headers.get("Content-Type", "")).startswith(EVENTS):
        found = _document(response.read())
        if found is not None:
            yield found
        return
    while line := response.readline():
        found = _document(line[5:]) if line.startswith(b"data:") else None
        if found is not None:
            yield found


def _document(text: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(text or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
