"""One session of the agent: its conversation, its tool servers, its one running turn."""

from __future__ import annotations

import sys

from ostler.pool.demo import frames
from ostler.pool.demo.mcp_client import McpError, McpServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.pool.demo.conversation import Conversation
    from ostler.pool.demo.flags import Flags
    from ostler.pool.demo.record import Recorder
    from ostler.pool.demo.turn import Turn

MODES: dict[str, str] = {"default": "Default", "quiet": "Quiet"}


class Session:
    """What the agent holds for one session id."""

    def __init__(self, number: str, cwd: str, conversation: Conversation) -> None:
        self.id = number
        self.cwd = cwd
        self.conversation = conversation
        self.mode = "default"
        self.turn: Turn | None = None
        self.servers: list[McpServer] = []
        self.words_in = 0
        self.words_out = 0

    def start_servers(self, entries: list[dict[str, object]], flags: Flags, recorder: Recorder | None) -> None:
        """Start the tool servers. One that fails is missing, as with every real agent; the session is not."""
        for entry in entries:
            self._start_server(entry, flags, recorder)

    def close_servers(self) -> None:
        """End the tool servers, all at once. They stay ours until they are gone: stdin may end meanwhile."""
        servers = list(self.servers)
        for server in servers:
            server.hang_up()
        for server in servers:
            server.close()
        self.servers = [server for server in self.servers if server not in servers]

    def modes(self) -> dict[str, object]:
        available = [{"id": mode, "name": name} for mode, name in MODES.items()]
        return {"currentModeId": self.mode, "availableModes": available}

    def usage(self) -> dict[str, object]:
        """Return the words of all turns, which stand for tokens."""
        return {
            "inputTokens": self.words_in,
            "outputTokens": self.words_out,
            "totalTokens": self.words_in + self.words_out,
        }

    def _start_server(self, entry: dict[str, object], flags: Flags, recorder: Recorder | None) -> None:
        def listed(names: list[str]) -> None:
            if recorder is not None:
                recorder.tools(self.id, str(entry["name"]), sorted(names))

        server = McpServer(entry, self.cwd, follow=not flags.no_list_changed, on_tools=listed)
        # Ours before it starts: if stdin ends during its handshake, it must end with us.
        self.servers.append(server)
        try:
            server.start()
        except McpError as error:
            print(f"demo agent: {error}", file=sys.stderr)
            if server in self.servers:
                self.servers.remove(server)
            server.close()


def check_servers(entries: list[dict[str, object]]) -> None:
    """Refuse server entries that are not stdio servers before anything is started."""
    for entry in entries:
        frames.text_field(entry, "name")
        if entry.get("type", "stdio") != "stdio":
            raise frames.RpcError(frames.INVALID_PARAMS, f"mcpServers: no support for type {entry['type']!r}")
        frames.text_field(entry, "command")
        for row in frames.list_field({"env": [], **entry}, "env"):
            frames.text_field(row, "name")
            frames.text_field(row, "value")
