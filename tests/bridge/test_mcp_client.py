"""The official MCP client, of every protocol era, talks to the bridge through a real relay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.server import Bridge
from ostler.bridge.session_binding import SessionBinding
from tests.support.relays import running_bridge, tool

if TYPE_CHECKING:
    from mcp.client import Client

TOOLS = [tool(f"tool_{number:02}", "numbered", text={"type": "string"}) for number in range(25)]
Mode = Literal["legacy", "auto", "2026-07-28"]


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    async with running_bridge(tmp_path, page_size=10) as running:
        yield running


def client_of(binding: SessionBinding, mode: Mode) -> Client:
    from mcp import StdioServerParameters
    from mcp.client import Client

    command, *args = binding.relay.argv
    return Client(StdioServerParameters(command=command, args=args, env=dict(binding.relay.env)), mode=mode)


async def dispatcher(call: ToolCall) -> CallResult:
    call.progress(1, 2, "half")
    if call.name == "tool_01":
        return CallResult.error("no such luck")
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    return CallResult(
        ({"type": "text", "text": f"{call.context}:{call.arguments['text']}"}, image), structured={"n": 1}
    )


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_official_client_lists_and_calls(bridge: Bridge, mode: Mode) -> None:
    from mcp_types import ImageContent, TextContent

    binding = bridge.open(TOOLS)
    bridge.publish(binding, TOOLS, dispatcher, "mine")
    async with client_of(binding, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        names, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [entry.name for entry in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert names == [entry["name"] for entry in TOOLS]
        await binding.attached()
        heard: list[tuple[float, float | None, str | None]] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))

        result = await client.call_tool("tool_00", {"text": "hi"}, progress_callback=hear)
        assert [type(block) for block in result.content] == [TextContent, ImageContent]
        assert result.content[0].text == "mine:hi"
        assert result.structured_content == {"n": 1}
        assert heard == [(1, 2, "half")]
        assert (await client.call_tool("tool_01", {})).is_error
