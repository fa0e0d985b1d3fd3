"""One session of the agent: its conversation, its tool servers, its one running turn."""

from __future__ import annotations

import sys

from ostler.demo import frames
from ostler.demo.mcp_acp import AcpCarrier
from ostler.demo.mcp_client import McpError, McpServer
from ostler.demo.mcp_stdio import StdioCarrier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.demo.conversation import DemoConversation
    from ostler.demo.flags import Flags
    from ostler.demo.mcp_acp import AcpLines
    from ostler.demo.mcp_client import Carrier
    from ostler.demo.record import Recorder
    from ostler.demo.turn import DemoTurn

# What each kind of entry must have: a text, and a list of names with values.
FIELDS = {"stdio": ("command", "env"), "http": ("url", "headers"), "acp": ("serverId", "_none")}
MODES: dict[str, str] = {"default": "Default", "quiet": "Quiet"}


class DemoSession:
    """The state of one session id."""

    def __init__(self, number: str, cwd: str, conversation: DemoConversation) -> None:
        self.id = number
        self.cwd = cwd
        self.conversation = conversation
        self.mode = "default"
        self.turn: DemoTurn | None = None
        self.servers: list[McpServer] = []
        self.words_in = 0
        self.words_out = 0

    def start_servers(
        self, entries: list[dict[str, object]], flags: Flags, lines: AcpLines, recorder: Recorder | None
    ) -> None:
        """Start the tool servers. A session is opened without a server that fails, as by every real agent."""
        for entry in entries:
            self._start_server(entry, flags, lines, recorder)

    def close_servers(self) -> None:
        """End the tool servers in parallel. They stay listed until they are gone, because stdin may end meanwhile."""
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

    def _start_server(self, entry: dict[str, object], flags: Flags, lines: AcpLines, recorder: Recorder | None) -> None:
        def listed(names: list[str]) -> None:
            if recorder is not None:
                recorder.tools(self.id, str(entry["name"]), sorted(names))

        carrier = self._carrier(entry, lines)
        server = McpServer(str(entry["name"]), carrier, follow=not flags.no_list_changed, on_tools=listed)
        # Listed before it starts: if stdin ends during its handshake, it must be ended with the agent.
        self.servers.append(server)
        try:
            server.start()
        except McpError as error:
            print(f"demo agent: {error}", file=sys.stderr)
            if server in self.servers:
                self.servers.remove(server)
            server.close()

    def _carrier(self, entry: dict[str, object], lines: AcpLines) -> Carrier:
        kind = _kind(entry)
        if kind == "acp":
            return AcpCarrier(entry, lines)
        if kind == "http":
            from ostler.demo.mcp_http import HttpCarrier  # noqa: PLC0415 - sockets take long to import

            return HttpCarrier(entry)
        return StdioCarrier(entry, self.cwd)


def check_servers(entries: list[dict[str, object]], flags: Flags) -> None:
    """Refuse entries that were not offered, or that cannot be read, before any server is started."""
    offered = {"stdio": True, "http": flags.mcp_http, "acp": flags.mcp_acp}
    for entry in entries:
        frames.text_field(entry, "name")
        kind = _kind(entry)
        if not offered.get(kind):
            raise frames.RpcError(frames.INVALID_PARAMS, f"mcpServers: no support for type {kind!r}")
        needed, pairs = FIELDS[kind]
        frames.text_field(entry, needed)
        for row in frames.list_field({pairs: [], **entry}, pairs):
            frames.text_field(row, "name")
            frames.text_field(row, "value")


def _kind(entry: dict[str, object]) -> str:
    return frames.text_field({"type": "stdio", **entry}, "type")
