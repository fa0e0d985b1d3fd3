"""The /admin API for the console commands and other programs of operators.

The same application answers on the admin socket and, for operators, on the listener.

Rules: every answer is JSON, every error an error envelope. An order names its target: leaving the target out never
means "all", except for `pause` and `resume`, which may apply to the whole pool.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Protocol, TypeVar

import msgspec
import orjson
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.http.answers import SSE, document
from ostler.gateway.http.body import read_object
from ostler.gateway.http.errors import invalid
from ostler.gateway.http.routes import Endpoint, RouteSpec
from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.ops.console.errors import ConsoleError
from ostler.gateway.ops.console.operator import Done, Named, Operator
from ostler.gateway.ops.console.status_view import StatusView, Watch
from ostler.pool.errors import BadDirectory, PoolClosed, PoolError
from ostler.wire.json import JsonObject

Name = Annotated[str, Meta(min_length=1, max_length=2000)]
Seats = Annotated[int, Meta(ge=0, le=64)]
B = TypeVar("B", bound=Struct)


class ReloadOutcome(Protocol):
    """The keys of the configuration file that changed."""

    @property
    def taken(self) -> Sequence[str]: ...

    @property
    def ignored(self) -> Sequence[str]: ...


class KeyBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Names a key in the form that the console prints."""

    key: Name
    cwd: Name | None = None


class WarmBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Names a key and how many seats to keep ready (its floor)."""

    key: Name
    cwd: Name | None = None
    seats: Seats = 1


class ScopeBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Names a key; without one, the whole pool is meant."""

    key: Name | None = None
    cwd: Name | None = None


class ProcessBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Names a process by its number in the answer of `show`."""

    process: int


class Admin:
    """The routes of the /admin API."""

    def __init__(
        self, status_view: StatusView, operator: Operator, reload: Callable[[], Awaitable[ReloadOutcome]]
    ) -> None:
        self._status_view = status_view
        self._operator = operator
        self._reload = reload

    def rows(self) -> list[RouteSpec]:
        """Every route with the type of its body."""
        do = self._operator
        return [
            RouteSpec("GET", "/admin/pool", typed(self.show), "What the pool holds, and the last turns"),
            RouteSpec("GET", "/admin/pool/why", typed(self.why), "Why a key is as warm as it is", query=("key", "cwd")),
            RouteSpec("GET", "/admin/events", typed(self.events), "The state, whenever it changes",
                answers="text/event-stream"),
            RouteSpec("POST", "/admin/pool/warm", order(WarmBody, lambda b: do.warm(Named(b.key, b.cwd), b.seats)),
                "Keep seats of a key ready", WarmBody),
            RouteSpec("POST", "/admin/pool/pause", order(ScopeBody, lambda b: do.pause(scope(b))),
                "Let claims of a key, or all claims, wait", ScopeBody),
            RouteSpec("POST", "/admin/pool/resume", order(ScopeBody, lambda b: do.resume(scope(b))),
                "Take a pause back", ScopeBody),
            RouteSpec("POST", "/admin/pool/drain", order(KeyBody, lambda b: do.drain(Named(b.key, b.cwd))),
                "Let the processes of a key end when their sessions have moved", KeyBody),
            RouteSpec("POST", "/admin/pool/reconnect", order(KeyBody, lambda b: do.reconnect(Named(b.key, b.cwd))),
                "Forget the start failures of a key", KeyBody),
            RouteSpec("POST", "/admin/pool/recycle", order(ProcessBody, lambda b: do.recycle(b.process)),
                "Replace one process", ProcessBody),
            RouteSpec("POST", "/admin/pool/kill", order(ProcessBody, lambda b: do.kill(b.process)),
                "End one process now", ProcessBody),
            RouteSpec("POST", "/admin/reload", typed(self.reload), "Read the configuration again"),
        ]  # fmt: skip

    async def reload(self, _request: Request) -> Response:
        """POST /admin/reload: read the configuration again."""
        try:
            outcome = await self._reload()
        except ConfigError as error:
            raise ApiError(400, str(error), code="invalid_configuration") from error
        return document({"object": "config.reload", "taken": outcome.taken, "ignored": outcome.ignored})

    async def show(self, _request: Request) -> Response:
        """Handle `GET /admin/pool`: the state of the pool and the last turns."""
        return document(self._status_view.state())

    async def why(self, request: Request) -> Response:
        """Handle `GET /admin/pool/why`: explain one key."""
        key = request.query_params.get("key")
        if not key:
            raise bad("name a key: ?key=provider/model", "key")
        why = await self._operator.why(Named(key, request.query_params.get("cwd")))
        return document({"object": "pool.why", **why.as_json()})

    async def events(self, _request: Request) -> Response:
        """Handle `GET /admin/events`: stream the state whenever it changes."""
        return StreamingResponse(self._frames(self._status_view.watch()), headers=SSE)

    async def _frames(self, watch: Watch) -> AsyncIterator[bytes]:
        async for state in watch:
            yield b"event: state\ndata: " + orjson.dumps(state) + b"\n\n"


def order(kind: type[B], give: Callable[[B], Done | Awaitable[Done]]) -> Endpoint:
    """Make the endpoint of a verb from the type of its body and the call that carries it out."""

    async def endpoint(request: Request) -> Response:
        given = give(body_of(kind, await read_object(request)))
        return document(facts_of(given if isinstance(given, Done) else await given))

    return typed(endpoint)


def body_of(kind: type[B], given: JsonObject) -> B:
    """Validate the body of an order; raises the API's 400 error."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise invalid(error) from error


def scope(body: ScopeBody) -> Named | None:
    """The named key; None means the whole pool."""
    if body.key is None and body.cwd is not None:
        raise bad("a cwd without a key means nothing", "cwd")
    return None if body.key is None else Named(body.key, body.cwd)


def facts_of(done: Done) -> JsonObject:
    """The JSON answer to an order."""
    return {"object": "pool.order", **asdict(done)}


def typed(endpoint: Callable[[Request], Awaitable[Response]]) -> Endpoint:
    """Wrap an endpoint so that errors of the console and the pool become API errors."""

    async def translate(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ConsoleError as error:
            raise ApiError(error.status, str(error), code=error.code) from error
        except BadDirectory as error:
            raise bad(str(error), "cwd", "invalid_cwd") from error
        except PoolClosed as error:
            raise ApiError(503, str(error), code="shutting_down") from error
        except PoolError as error:
            raise ApiError(409, str(error), code="refused_by_pool") from error

    return translate
