"""The other end of the admin socket: what the console commands ask a running gateway with.

Rules: standard library only and blocking, because a command asks one thing and prints it. Whatever goes wrong is one of
three things: no gateway there, an order that was refused, or a gateway that said something we do not understand.
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
"""A live view says something every few seconds."""


class NoGateway(GatewayError):
    """Nobody listens."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"no gateway runs with the data folder {folder} ({why}); start one with `ostler serve`, or name its folder "
            "with --data-dir"
        )
        self.folder = folder
        self.why = why


class OrderRefused(GatewayError):
    """The gateway said no. Its own sentence is the text."""

    def __init__(self, status: int, code: str | None, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class GatewayLost(GatewayError):
    """It stopped answering, or never spoke our language."""


class UnixConnection(http.client.HTTPConnection):
    """HTTP to a socket file."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """To the file instead of to the host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class AdminClient:
    """To the gateway of one data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def show(self) -> JsonObject:
        """What the pool holds."""
        return self._ask("GET", "/admin/pool")

    def why(self, key: str, cwd: str | None) -> JsonObject:
        """Why a key is as warm as it is."""
        query = {"key": key} if cwd is None else {"key": key, "cwd": cwd}
        return self._ask("GET", f"/admin/pool/why?{urlencode(query)}")

    def order(self, verb: str, facts: Mapping[str, object]) -> JsonObject:
        """Carry out a verb."""
        return self._ask("POST", f"/admin/pool/{verb}", dict(facts))

    def reload(self) -> JsonObject:
        """Read the configuration again."""
        return self._ask("POST", "/admin/reload", {})

    def states(self) -> Iterator[JsonObject]:
        """The state, whenever it changes, until the gateway stops."""
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
    """Lines until the end of the answer."""
    while line := answer.readline():
        yield line.rstrip(b"\n")


def object_of(text: bytes) -> JsonObject:
    """A JSON object."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise GatewayLost("the gateway answered something that is no JSON") from error
    if not isinstance(found, dict):
        raise GatewayLost("the gateway answered JSON that is no object")
    return found
