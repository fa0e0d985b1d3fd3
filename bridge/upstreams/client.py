"""The official MCP client library, behind the `Remote` protocol. The only file that imports it.

Rules: a client is opened and closed in one task, its supervisor's; calls may come from other tasks. `process.py` starts
a stdio server, and the library gets two streams.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import anyio
import httpx2
import mcp_types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, jsonrpc_message_adapter
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.results import truncated
from ostler.bridge.upstreams.process import UpstreamProcess, environment, running
from ostler.bridge.upstreams.remote import Remote, RemoteLost, RemoteRefused
from ostler.bridge.upstreams.settings import UpstreamSettings
from ostler.wire.json import JsonObject

PAGES: Final = 100
PATIENCE: Final = 30.0

Streams: TypeAlias = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]


class McpRemote:
    """A connected server; implements `Remote` with the library's client."""

    def __init__(self, client: Client, settings: UpstreamSettings, gone: "asyncio.Future[str]") -> None:
        self._client = client
        self._settings = settings
        self._gone = gone

    async def tools(self) -> Sequence[JsonObject]:
        found: list[JsonObject] = []
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self._client.list_tools(cursor=cursor)
            found += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def call(self, name: str, call: ToolCall) -> CallResult:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            call.progress(progress, total, message)

        try:
            answered = await self._client.call_tool(
                name, call.arguments, read_timeout_seconds=self._settings.timeout, progress_callback=report
            )
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise RemoteLost from error
        except MCPError as error:
            await self._verify()
            raise (RemoteLost if error.code == CONNECTION_CLOSED else RemoteRefused)(str(error)) from error
        document = answered.model_dump(mode="json", by_alias=True, exclude_none=True)
        structured = document.get("structuredContent")
        result = CallResult(
            tuple(document.get("content", ())),
            is_error=document.get("isError", False),
            structured=structured if isinstance(structured, dict) else None,
        )
        return truncated(result, self._settings.output_limit)

    async def gone(self) -> str:
        return await asyncio.shield(self._gone)

    async def _verify(self) -> None:
        """Check after a failed call whether the server still knows this client: over HTTP it does not tell."""
        if self._settings.url is None or self._gone.done():
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self.tools()
        except (MCPError, TimeoutError) as error:
            _settle(self._gone, f"it does not answer any more ({error})")


@asynccontextmanager
async def connect(settings: UpstreamSettings, changed: Callable[[], None]) -> AsyncIterator[Remote]:
    gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def on_message(message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            changed()

    client = Client(
        _http(settings, settings.url) if settings.url is not None else _stdio(settings, gone),
        mode="legacy" if settings.handshake else "auto",
        message_handler=on_message,
        client_info=mcp_types.Implementation(name="ostler", version="0"),
        cache=None,
    )
    async with client, asyncio.TaskGroup() as group:
        watching = group.create_task(_watch(client, changed, gone))
        try:
            yield McpRemote(client, settings, gone)
        finally:
            watching.cancel()


@asynccontextmanager
async def _http(settings: UpstreamSettings, url: str) -> AsyncIterator[Streams]:
    timeout = httpx2.Timeout(PATIENCE, read=max(settings.timeout, PATIENCE))
    async with (
        httpx2.AsyncClient(headers=dict(settings.headers), timeout=timeout) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


@asynccontextmanager
async def _stdio(settings: UpstreamSettings, gone: "asyncio.Future[str]") -> AsyncIterator[Streams]:
    async with running(settings.command, env=environment(settings.env), cwd=settings.cwd) as process:
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)
        async with from_server, to_server, anyio.create_task_group() as pumps:
            pumps.start_soon(_read, process, to_client, gone)
            pumps.start_soon(_write, process, from_client)
            try:
                yield from_server, to_server
            except Exception as error:
                # The library reports only that the connection closed; the process's stderr may say why.
                raise RemoteLost(await process.last_stderr()) from error
            finally:
                pumps.cancel_scope.cancel()


async def _read(
    process: UpstreamProcess, to_client: WriteStream[SessionMessage | Exception], gone: "asyncio.Future[str]"
) -> None:
    async with to_client:
        while line := await process.stdout.readline():
            await to_client.send(_parsed(line))
    _settle(gone, await process.last_stderr())


async def _write(process: UpstreamProcess, from_client: ReadStream[SessionMessage]) -> None:
    async with from_client:
        async for sent in from_client:
            line = sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                await process.stdin.write(line)
            except BrokenPipeError:
                return  # the end of its stdout is reported instead


def _parsed(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _watch(client: Client, changed: Callable[[], None], gone: "asyncio.Future[str]") -> None:
    """Subscribe to list changes of a server of the stateless revision, which sends them only on request."""
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    tools = client.server_capabilities.tools
    if tools is None or not tools.list_changed:
        return
    try:
        async with client.listen(tools_list_changed=True) as events:
            async for _ in events:
                changed()
    except Exception as error:  # noqa: BLE001 - after any error the supervisor must connect again
        _settle(gone, f"its event stream was lost ({type(error).__name__})")


def _settle(gone: "asyncio.Future[str]", why: str) -> None:
    if not gone.done():
        gone.set_result(why)
