"""How tools reach the sessions of one process, and MCP messages over the agent's own pipe.

Rules:
- The channel belongs to the process: the configured one, otherwise the provider's. An agent that does not offer it is
  detected before any request, so it is not mistaken for an agent that failed to connect.
- A message over the agent's pipe (MCP over ACP) is passed on unchanged. The ids declared on this very process decide
  which session it is for; the pool does not know them.
"""

from dataclasses import replace

from ostler.pool.agent.codec import AgentInfo, AgentNotification
from ostler.pool.agent.connection import AgentConnection
from ostler.pool.errors import ToolChannelMissing
from ostler.pool.launch.builder import Launch
from ostler.pool.order import SeatOrder
from ostler.pool.ports import McpPipe
from ostler.pool.provider import ToolChannel
from ostler.wire.json import JsonObject
from ostler.wire.rpc import INVALID_PARAMS, RpcFault, RpcId


class ToolChannelRouter:
    """Connects the sessions of one process to their tools."""

    def __init__(self, launch: Launch, connection: AgentConnection) -> None:
        self._launch = launch
        self._connection = connection
        self._pipe: McpPipe | None = None

    def equip(self, order: SeatOrder, info: AgentInfo) -> SeatOrder:
        """The order, completed for the codec. Raises `ToolChannelMissing`."""
        ticket, channel = order.ticket, self._launch.channel
        if ticket is None:
            return order
        if channel not in info.channels:
            offered = ", ".join(sorted(info.channels))
            raise self._missing(f"{info.name or 'the agent'} {info.version} does not offer it, only: {offered}")
        if channel is ToolChannel.HTTP and ticket.http() is None:
            raise self._missing("the gateway runs no HTTP tool channel; enable it, or configure another channel")
        if channel is not ToolChannel.ACP:
            return order
        if self._pipe is None:
            self._pipe = ticket.pipe(self._tell)
        return replace(order, declared=self._pipe.declare(ticket))

    def request(self, request_id: RpcId, method: str, params: JsonObject) -> None:
        """Pass on a request that the agent sends to a session's tools, and answer it."""

        def answer(outcome: JsonObject | RpcFault) -> None:
            if isinstance(outcome, RpcFault):
                self._connection.refuse(request_id, outcome)
            else:
                self._connection.answer(request_id, outcome)

        if self._pipe is None:
            self._connection.refuse(request_id, RpcFault(INVALID_PARAMS, "no tools were declared here"))
        else:
            self._pipe.request(request_id, method, params, answer)

    def notice(self, method: str, params: JsonObject) -> None:
        """Pass on a notification that the agent sends to a session's tools."""
        if self._pipe is not None:
            self._pipe.notice(method, params)

    def close(self) -> None:
        """Close the pipe: the process is gone."""
        if self._pipe is not None:
            self._pipe.close()

    def _tell(self, method: str, params: JsonObject) -> None:
        self._connection.tell(AgentNotification(method, params))

    def _missing(self, why: str) -> ToolChannelMissing:
        return ToolChannelMissing(provider=self._launch.provider.name, channel=self._launch.channel.value, why=why)
