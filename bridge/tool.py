"""A tool: a typed function, the schema of its signature, and the limits it runs under.

    @tool(timeout=10)
    async def weather(city: Annotated[str, "as on a map"], context: ToolContext) -> str:
        \"\"\"The weather in a city.\"\"\"

Rules: arguments are checked before the function gets them. A sync function runs in a thread, in a copy of the caller's
context. Every failure of the function is answered to its caller and affects no other call: an exception, `sys.exit`, or
a cancellation that the function caused itself. `ToolError` carries text for the model; the runner reports any other
exception by its type, redacted.
"""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, overload

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.context import NoSessionContext, session_context
from ostler.bridge.results import result_of
from ostler.bridge.schema import Signature, SignatureRefused, signature_of
from ostler.bridge.validation import problems
from ostler.wire.json import JsonObject
from ostler.wire.public_names import renamed
from ostler.wire.redaction import excerpt

TIMEOUT: Final = 120.0
OUTPUT_LIMIT: Final = 100_000
CONCURRENCY: Final = 8

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")  # the names that every model API allows for a function

Function: TypeAlias = Callable[..., object]
Service = TypeVar("Service")
Services: TypeAlias = Mapping[type, object]
ToolOutcome: TypeAlias = Callable[[], object]
InThread: TypeAlias = Callable[[Callable[[], ToolOutcome]], Awaitable[ToolOutcome]]
"""Runs a function in a thread; the `Toolbelt` decides in which, and when."""


class ToolError(Exception):
    """Raised by a tool to refuse a call, with text for the model."""


class ServiceMissing(ToolError):
    """The tool needs a service that this gateway does not offer."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        super().__init__(f"this gateway has no {kind.__name__}")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call that a tool serves, and the services of the gateway."""

    call: ToolCall
    services: Services

    @property
    def session(self) -> object:
        """The session context given with the call, or the ambient one if none was given. Raises `NoSessionContext`."""
        given = self.call.context if self.call.context is not None else session_context()
        if given is None:
            raise NoSessionContext
        return given

    @property
    def call_id(self) -> str:
        return self.call.call_id

    def service(self, kind: type[Service]) -> Service:
        found = self.services.get(kind)
        if not isinstance(found, kind):
            raise ServiceMissing(kind)
        return found

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.call.progress(progress, total, message)

    def log(self, level: str, data: object, logger: str | None = None) -> None:
        self.call.log(level, data, logger)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function with its name, description, schema and limits, as a tool for sessions."""

    name: str
    description: str
    function: Function
    signature: Signature
    timeout: float = TIMEOUT
    output_limit: int = OUTPUT_LIMIT
    """In characters of text, all blocks together."""
    concurrency: int = CONCURRENCY
    """Calls of this tool that one session may have running; further calls wait."""

    @classmethod
    def of(
        cls,
        function: Function,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float = TIMEOUT,
        output_limit: int = OUTPUT_LIMIT,
        concurrency: int = CONCURRENCY,
    ) -> "Tool":
        signature = signature_of(function, ToolContext)
        named = name or _name_of(function)
        if _NAME.match(named) is None:
            raise SignatureRefused(named, "a tool's name is 1 to 64 letters, digits, underscores and dashes")
        return cls(
            name=named,
            description=description or inspect.getdoc(function) or "",
            function=function,
            signature=signature,
            timeout=timeout,
            output_limit=output_limit,
            concurrency=concurrency,
        )

    @property
    def definition(self) -> JsonObject:
        return {"name": self.name, "description": self.description, "inputSchema": self.signature.schema}

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    async def run(self, call: ToolCall, *, services: Services, in_thread: InThread) -> CallResult:
        """The answer to one call. Raises what the function raises, except what would end the loop or its task."""
        if found := problems(self.signature.schema, call.arguments):
            return CallResult.error(_advice(self.name, found))
        arguments = self.signature.arguments(call.arguments)
        if self.signature.injected is not None:
            arguments[self.signature.injected] = ToolContext(call, services)
        try:
            value = await (self._awaited(arguments) if self.is_async else self._threaded(arguments, in_thread))
            return result_of(value, self.output_limit)
        except ToolError as error:
            return CallResult.error(excerpt(str(error), self.output_limit))

    async def _awaited(self, arguments: dict[str, Any]) -> object:
        try:
            returned = self.function(**arguments)
            assert isinstance(returned, Awaitable)  # noqa: S101 - a coroutine function returns one; narrows the type
            return await returned
        except SystemExit as error:
            _refuse_exit(error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The caller did not cancel: a task that the tool awaited was cancelled. Raised further it would end this
            # task as if the caller had gone, and the caller would wait without end.
            raise ToolError("the tool's own work was cancelled") from error

    async def _threaded(self, arguments: dict[str, Any], in_thread: InThread) -> object:
        outcome = await in_thread(partial(copy_context().run, _outcome, self.function, arguments))
        return outcome()


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float = TIMEOUT,
    output_limit: int = OUTPUT_LIMIT,
    concurrency: int = CONCURRENCY,
) -> Callable[[Function], Tool]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float = TIMEOUT,
    output_limit: int = OUTPUT_LIMIT,
    concurrency: int = CONCURRENCY,
) -> Tool | Callable[[Function], Tool]:
    """Make a tool of a function; a decorator, with or without arguments."""

    def made(function: Function) -> Tool:
        return Tool.of(
            function,
            name=name,
            description=description,
            timeout=timeout,
            output_limit=output_limit,
            concurrency=concurrency,
        )

    return made if function is None else made(function)


def tool_of(given: object) -> Tool:
    """The `Tool` itself, or one made of a function. Raises `SignatureRefused`."""
    if isinstance(given, Tool):
        return given
    if not callable(given):
        raise SignatureRefused(repr(given), "it is neither a function nor a Tool")
    return Tool.of(given)


def _name_of(function: Function) -> str:
    return function.__name__ if inspect.isroutine(function) else type(function).__name__


def _advice(name: str, found: list[str]) -> str:
    return f"{name} was not run, its arguments are not right:\n" + "\n".join(f"- {each}" for each in found)


def _outcome(function: Function, arguments: dict[str, Any]) -> ToolOutcome:
    """Runs in the thread. An exception is returned, not raised: a future cannot hold a StopIteration, so its waiter
    would hang, and a SystemExit or a KeyboardInterrupt would reach the loop and end it.
    """
    try:
        value = function(**arguments)
    except SystemExit as error:
        return _raiser(ToolError(_exit_text(error)))
    except Exception as error:  # noqa: BLE001 - a tool may raise any exception; its caller raises it again
        return _raiser(error)
    except BaseException as error:  # noqa: BLE001 - these have no meaning in a thread, and would end the loop
        return _raiser(ToolError(f"the tool raised {type(error).__name__}"))
    return lambda: value


def _raiser(error: Exception) -> Callable[[], NoReturn]:
    def raise_it() -> NoReturn:
        raise error

    return raise_it


def _refuse_exit(error: SystemExit) -> NoReturn:
    raise ToolError(_exit_text(error)) from error


def _exit_text(error: SystemExit) -> str:
    return f"the tool tried to end the process (exit code {error.code})"


__getattr__ = renamed(__name__, {"Outcome": "ToolOutcome"})
