"""Tools as plain functions: each session calls its own, though all of them share one agent process.

    python examples/embed_tools.py [PROVIDER [MODEL]]

The demo agent calls a tool when it reads `!call NAME ARGUMENTS`; a real one decides for itself.
"""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

from ostler.bridge import ToolContext, ToolError, open_bridge
from ostler.pool import Tools, TransportKey, TransportPool, open_pool
from ostler.pool.events import Text


async def weather(city: Annotated[str, "as on a map"]) -> str:
    """The weather in a city."""
    if city == "Atlantis":
        raise ToolError("no such city; ask for one that is on a map")
    return f"{city}: sunny"


class Rider:
    """One chat session of this program, with a tool that is this session's alone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[str] = []

    def take_note(self, text: str, context: ToolContext) -> str:
        """Keeps a note for this rider."""
        self.notes.append(text)
        return f"noted for {context.session}, note {len(self.notes)}"

    async def ride(self, pool: TransportPool, key: TransportKey) -> str:
        tools: Tools = [weather, self.take_note]
        async with await pool.lease(key, tools=tools, tool_context=self.name, owner=self.name) as lease:
            question = f'!call weather {{"city": "Ulm"}}\n!call take_note {{"text": "from {self.name}"}}'
            turn = await lease.prompt(question)
            return "".join([event.text async for event in turn if isinstance(event, Text)])


def key_of(provider: str = "demo", model: str = "default") -> TransportKey:
    return TransportKey(provider, model, str(Path.cwd()))


async def main(key: TransportKey) -> None:
    riders = [Rider(name) for name in ("ann", "bob")]
    async with open_bridge() as bridge, open_pool(tool_port=bridge) as pool:
        for answer in await asyncio.gather(*(rider.ride(pool, key) for rider in riders)):
            print(*answer.splitlines(), sep=", ")
        print(f"{len(pool.snapshot().processes)} process; notes: {[rider.notes for rider in riders]}")


if __name__ == "__main__":
    asyncio.run(main(key_of(*sys.argv[1:])))
