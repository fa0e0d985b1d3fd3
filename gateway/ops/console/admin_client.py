"""The client of the admin socket, for the console commands.

Rules: standard library only and blocking, because a command asks one thing and prints the answer. Every failure is one
of three errors: no gateway is running, the gateway refused the order, or its answer cannot be understood.
"""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ostler.gateway.model.errors import GatewayError
from ostler.gateway.ops.console.place import admin_socket, short
from ostler.wire.json import JsonObject

PATIENCE = 30.0
SILENCE = 20.0
"""Seconds without a byte after which a live view gives up; the gateway sends something every few seconds."""


class NoGateway(GatewayError):
    """No process listens on the admin socket of the folder."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"no gateway runs with the data folder {folder} ({why}); start one with `ostler serve`, or name its folder "
            "with --data-dir"
        )
        self.folder = folder
        self.why = why


class OrderRefused(GatewayError):
    """The gateway refused the order. The text is the gateway's own sentence."""

    def __init__(self, status: int, code: str | None, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class GatewayLost(GatewayError):
    """The gateway stopped answering, or its answer is not valid."""


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket file instead of the host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class AdminClient:
    """Sends requests to the gateway of one data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def show(self) -> JsonObject:
        """Fetch the state of the pool."""
        return self._ask("GET", "/admin/pool")

    def why(self, key: str, cwd: str | None) -> JsonObject:
        """Ask why a key has as many warm seats as it has."""
        query = {"key": key} if cwd is None else {"key": key, "cwd": cwd}
        return self._ask("GET", f"/admin/pool/why?{urlencode(query)}")

    def order(self, verb: str, facts: Mapping[str, object]) -> JsonObject:
        """Send an order; returns when the gateway has carried it out."""
        return self._ask("POST", f"/admin/pool/{verb}", dict(facts))

    def reload(self) -> JsonObject:
        """Read the configuration again."""
        return self._ask("POST", "/admin/reload", {})

    def states(self) -> Iterator[JsonObject]:
        """Yield the state whenever it changes, until the gateway stops."""
        connection, answer = self._open("GET", "/admin/events", None, SILENCE)
        try:
            if answer.status != http.client.OK:
                self._refuse(answer)
            for line in lines_of(answer):
                if line.startswith(b"data: "):
                    yield object_of(line[6:])
        except (OSError, http.client.HTTPException) as error:
            raise GatewayLost(f"the gateway stopped answering: {error}") from error
        finally:
            connection.close()

    def _ask(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        connection, answer = self._open(method, path, body, PATIENCE)
        try:
            if answer.status != http.client.OK:
                self._refuse(answer)
            return object_of(answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise GatewayLost(f"the gateway stopped answering: {error}") from error
        finally:
            connection.close()

    def _open(
        self, method: str, path: str, body: JsonObject | None, timeout: float
    ) -> tuple[UnixConnection, http.client.HTTPResponse]:
        try:
            with short(admin_socket(self._folder)) as name:
                connection = UnixConnection(name, timeout)
                connection.connect()
        except OSError as error:
            raise NoGateway(self._folder, error.strerror or str(error)) from error
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"content-type": "application/json"} if sent else {})
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise GatewayLost(f"the gateway did not answer: {error}") from error

    def _refuse(self, answer: http.client.HTTPResponse) -> None:
        told = object_of(answer.read()).get("error")
        facts: Mapping[str, Any] = told if isinstance(told, dict) else {}
        raise OrderRefused(answer.status, facts.get("code"), str(facts.get("message", f"status {answer.status}")))


def lines_of(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the lines of a streamed answer."""
    while line := answer.readline():
        yield line.rstrip(b"\n")


def object_of(text: bytes) -> JsonObject:
    """Parse a JSON object; or raise `GatewayLost`."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise GatewayLost("the gateway answered something that is no JSON") from error
    if not isinstance(found, dict):
        raise GatewayLost("the gateway answered JSON that is no object")
    return found
