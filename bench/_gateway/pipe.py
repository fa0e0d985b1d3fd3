"""The raw floor: a demo agent driven directly on its pipe, many sessions at once, by the shortest client that works."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Pipe:
    """One process; answers find their questions by number."""

    process: asyncio.subprocess.Process
    waiting: "dict[int, asyncio.Future[dict[str, Any]]]" = field(default_factory=dict)
    heard: int = 0
    """Text updates so far."""
    asked: int = 0

    async def ask(self, method: str, **params: object) -> dict[str, Any]:
        """One request."""
        self.asked += 1
        frame = {"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}
        answer = self.waiting[self.asked] = asyncio.get_running_loop().create_future()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        result: dict[str, Any] = await answer
        return result

    async def session(self, cwd: Path) -> str:
        """A new one."""
        made = await self.ask("session/new", cwd=str(cwd), mcpServers=[])
        return str(made["sessionId"])

    async def prompt(self, session: str, text: str) -> None:
        """One turn, to its end."""
        await self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    async def hear(self) -> None:
        """Read until the process ends."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            if b'"session/update"' in line:
                self.heard += b'"agent_message_chunk"' in line
                continue
            message = json.loads(line)
            self.waiting.pop(message["id"]).set_result(message.get("result") or {})


@asynccontextmanager
async def pipe(folder: Path) -> AsyncIterator[Pipe]:
    """A process that has shaken hands."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ostler.gateway", "agent", "demo"),
        *("--state-dir", str(folder / "pipe")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    agent = Pipe(process)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(agent.hear())
            await agent.ask("initialize", protocolVersion=1, clientCapabilities={})
            yield agent
            assert process.stdin is not None
            process.stdin.close()
    except BaseException:
        process.kill()
        raise
    finally:
        await process.wait()
