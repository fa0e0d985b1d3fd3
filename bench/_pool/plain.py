"""What a gateway without a pool does: one agent process for each session, over a plain ACP client of a hundred lines.

Rules: as quick as it can honestly be. The same command, environment, HOME contents, tools and relay as the pool's
agents get; no supervision, no limits, no second thoughts.
"""

import asyncio
import json
import os
import re
import signal
from contextlib import suppress
from time import perf_counter
from typing import Any

from bench._pool.ground import TOOLS, whoami
from ostler.bridge.server import Bridge
from ostler.pool.launch.builder import Launch

LINE_LIMIT = 1 << 26


class PlainSession:
    """One process, one session."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._id = 0
        self._session = ""

    @classmethod
    async def open(cls, plan: Launch, cwd: str, bridge: Bridge, who: str) -> "PlainSession":
        """Spawn, shake hands, open a session with its tools."""
        process = await asyncio.create_subprocess_exec(
            *plan.command.argv,
            cwd=plan.command.cwd,
            env=dict(plan.command.env),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LINE_LIMIT,
            start_new_session=True,
        )
        self = cls(process)
        try:
            about = {
                "protocolVersion": 1,
                "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}},
            }
            await self._ask("initialize", about)
            await self.sit(cwd, bridge, who)
        except BaseException:
            await self.end()
            raise
        return self

    async def sit(self, cwd: str, bridge: Bridge, who: str) -> None:
        """Open a session with its tools; what is prompted from now on is prompted there."""
        ticket = bridge.open(TOOLS.definitions)
        ticket.publish(TOOLS.definitions, whoami, who)
        env = [{"name": name, "value": value} for name, value in ticket.relay.env.items()]
        command, *arguments = ticket.relay.argv
        server = {"name": ticket.relay.name, "command": command, "args": arguments, "env": env}
        made = await self._ask("session/new", {"cwd": cwd, "mcpServers": [server]})
        self._session = made["sessionId"]
        await ticket.attached()

    async def first_text(self, prompt: str, aside: re.Pattern[str] | None = None) -> tuple[float, str]:
        """When the first piece of the answer came, and the whole answer. `aside` is what an agent writes into it and is
        no part of it."""
        first, said = 0.0, list[str]()

        def hear(message: dict[str, Any]) -> None:
            nonlocal first
            update = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                said.append(update["content"].get("text", ""))
                if aside is None or aside.sub("", "".join(said)).strip():
                    first = first or perf_counter()

        await self._ask(
            "session/prompt", {"sessionId": self._session, "prompt": [{"type": "text", "text": prompt}]}, hear
        )
        return first or perf_counter(), "".join(said)

    async def end(self) -> None:
        """Kill the process and what it launched."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        self._stdin.close()

    async def _ask(self, method: str, params: dict[str, Any], hear: Any = None) -> dict[str, Any]:
        self._id += 1
        frame = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self._stdin.write(json.dumps(frame).encode() + b"\n")
        while line := await self._stdout.readline():
            with suppress(ValueError):
                message = json.loads(line)
                if message.get("id") == self._id and "method" not in message:
                    if "error" in message:
                        raise AssertionError(f"{method}: {message['error']}")
                    result: dict[str, Any] = message["result"] or {}
                    return result
                if hear is not None:
                    hear(message)
        raise AssertionError(f"the agent ended during {method}")
