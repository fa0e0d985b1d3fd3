"""The server that the conformance scenarios expect: our bridge, our HTTP application, and the tools they name.

    python -m tools.conformance.server        prints its URL on one line, ends when its stdin does

The suite knows no bearer tokens, so a thin layer in front adds the one of the only binding. Everything else is what an
agent would meet.
"""

import asyncio
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import uvicorn

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.channels.http import HttpChannel
from ostler.bridge.channels.http_app import HttpSettings
from ostler.bridge.channels.http_request import AsgiSend, Receive, Scope
from ostler.bridge.offer import Offer, combined
from ostler.bridge.results import Audio, Image, Resource
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.threads import Threads
from ostler.bridge.tool import ToolContext, ToolError, tool
from ostler.bridge.toolbelt import Toolbelt

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63f8cfc0f01f00050001ff"
    "56c72f0d0000000049454e44ae426082"
)
SILENCE = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0"


@tool(name="test_simple_text")
async def simple_text() -> str:
    """Returns a text."""
    return "This is a simple text response for testing."


@tool(name="test_image_content")
def image() -> Image:
    """Returns a picture."""
    return Image(PIXEL, "image/png")


@tool(name="test_audio_content")
def audio() -> Audio:
    """Returns a sound."""
    return Audio(SILENCE, "audio/wav")


@tool(name="test_embedded_resource")
async def resource() -> Resource:
    """Returns a document."""
    return Resource("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@tool(name="test_multiple_content_types")
async def mixed() -> list[str | Image | Resource]:
    """Returns a text, a picture and a document."""
    document = Resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return ["Multiple content types test:", Image(PIXEL, "image/png"), document]


@tool(name="test_tool_with_logging")
async def logging(context: ToolContext) -> str:
    """Says what it does while it does it."""
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        context.log("info", said)
        await asyncio.sleep(0.05)
    return "logged"


@tool(name="test_tool_with_progress")
async def progress(context: ToolContext) -> str:
    """Says how far it is."""
    for done in (0, 50, 100):
        context.progress(done, 100)
        await asyncio.sleep(0.05)
    return "done"


@tool(name="test_error_handling")
async def error() -> str:
    """Always fails."""
    raise ToolError("This tool intentionally returns an error for testing")


# A schema that no signature of ours writes: what other owners of tools say passes through untouched.
FOREIGN = {
    "name": "json_schema_2020_12_tool",
    "description": "Tool with JSON Schema 2020-12 features",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
        },
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    },
}
TOOLS = (simple_text, image, audio, resource, mixed, logging, progress, error)


async def answer_foreign(call: ToolCall) -> CallResult:
    return CallResult.text(f"called with {sorted(call.arguments)}")


class Introduced:
    """The application, for a client that cannot bring a token."""

    def __init__(self, channel: HttpChannel, headers: Mapping[str, str]) -> None:
        self._app = channel.app
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: AsgiSend) -> None:
        await self._app({**scope, "headers": [*scope["headers"], *self._headers]}, receive, send)


async def serve(directory: Path) -> None:
    bridge = Bridge(BridgeSettings(data_directory=directory))
    await bridge.start()
    channel = HttpChannel(HttpSettings(enabled=True))
    await channel.start()
    binding = bridge.open()
    offer = combined([Toolbelt(TOOLS, threads=Threads(2)).offer, Offer([FOREIGN], answer_foreign)])
    binding.publish(offer.definitions, offer.dispatcher)
    application = Introduced(channel, channel.open(binding).headers)
    server = uvicorn.Server(uvicorn.Config(application, lifespan="off", ws="none", log_level="error"))
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"http://localhost:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving
    await channel.stop()
    await bridge.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(serve(Path(directory)))


if __name__ == "__main__":
    main()
