"""Requests of the agent in one session that wait for answers: permission requests, and tool calls without a relay.

Rules:
- Every request is answered exactly once, whether the turn, the policy or the tool ends well or not: an agent that never
  gets its answer keeps its session busy until the process ends.
- At most `limit` requests wait at once; one more is refused with an error that says so. Otherwise an agent that does
  not wait for answers could create a task and a question for each of its lines.
- A permission request that is dropped is answered "cancelled", as the protocol requires; a dropped call gets an error.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from ostler.pool.agent.codec import Codec, PermissionWanted, ToolWanted
from ostler.pool.agent.connection import AgentConnection
from ostler.pool.events import AgentEvent, PermissionAnswered
from ostler.pool.order import SeatOrder
from ostler.pool.ports import PermissionChoice
from ostler.wire.rpc import INTERNAL_ERROR, INVALID_REQUEST, RpcFault, RpcId

TOO_MANY_REQUESTS = -32005
"""An own code: JSON-RPC leaves -32000 to -32099 to implementations."""


class PendingAgentRequest(Protocol):
    """What requests need of their transport."""

    codec: Codec
    connection: AgentConnection

    def hold(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]": ...


class OpenRequests:
    """The unanswered requests of one session."""

    def __init__(
        self,
        host: PendingAgentRequest,
        session_id: str,
        order: SeatOrder,
        announce: Callable[[AgentEvent], None],
        *,
        limit: int,
    ) -> None:
        self._limit = limit
        self._host = host
        self._session_id = session_id
        self._order = order
        self._announce = announce
        self._permissions: dict[str, tuple[RpcId, PermissionWanted, asyncio.Task[None]]] = {}
        self._calls: dict[RpcId, tuple[ToolWanted, asyncio.Task[None]]] = {}

    @property
    def waiting(self) -> bool:
        """Whether the agent waits for the client, so that its silence is not a fault."""
        return bool(self._permissions or self._calls)

    @property
    def full(self) -> bool:
        """Whether one more request would exceed the limit."""
        return len(self._permissions) + len(self._calls) >= self._limit

    def refuse(self, request_id: RpcId) -> None:
        """Answer a request over the limit with an error."""
        why = f"{self._limit} requests of this session wait for their answers already; wait for one before the next"
        self._host.connection.refuse(request_id, RpcFault(TOO_MANY_REQUESTS, why))

    def decide(self, request_id: RpcId, wanted: PermissionWanted) -> None:
        """Start a task that asks the permission policy and answers the request."""
        task = self._host.hold(self._decide(request_id, wanted))
        self._permissions[wanted.asked.id] = (request_id, wanted, task)

    def decline(self, request_id: RpcId, wanted: PermissionWanted) -> None:
        """Answer "cancelled" without asking the policy: no turn runs that could want it."""
        self._host.connection.answer(request_id, self._host.codec.permission_answer(wanted, None))

    def call(self, request_id: RpcId, wanted: ToolWanted) -> None:
        """Start a task that runs the tool and answers the request."""
        if self.full:
            self.refuse(request_id)
            return
        if request_id in self._calls:
            self._host.connection.refuse(request_id, RpcFault(INVALID_REQUEST, "a call with this id is still running"))
            return
        self._calls[request_id] = (wanted, self._host.hold(self._call(request_id, wanted)))

    def drop(self, *, calls: bool) -> None:
        """Answer all permission requests "cancelled": the turn is cancelled or over. With `calls`, answer all tool
        calls with an error too; not left to their tasks: a task that is cancelled before its first step never runs.
        """
        permissions, self._permissions = self._permissions, {}
        for request_id, wanted, task in permissions.values():
            task.cancel()
            self._answer(request_id, wanted, PermissionChoice(None, "cancel"))
        if calls:
            running, self._calls = self._calls, {}
            for request_id, (call, task) in running.items():
                task.cancel()
                self._give_up(request_id, call)

    async def _decide(self, request_id: RpcId, wanted: PermissionWanted) -> None:
        choice = PermissionChoice(None, "error")
        try:
            choice = await self._order.policy(self._session_id, wanted.asked)
        finally:
            # If it is not there any more, `drop` has answered it already.
            if self._permissions.pop(wanted.asked.id, None) is not None:
                self._answer(request_id, wanted, choice)

    def _answer(self, request_id: RpcId, wanted: PermissionWanted, choice: PermissionChoice) -> None:
        option = next((each for each in wanted.asked.options if each.id == choice.option), None)
        chosen = None if option is None else option.id
        self._host.connection.answer(request_id, self._host.codec.permission_answer(wanted, chosen))
        self._announce(PermissionAnswered(wanted.asked.id, option, choice.by))

    async def _call(self, request_id: RpcId, wanted: ToolWanted) -> None:
        ticket, connection = self._order.ticket, self._host.connection
        if ticket is None:
            del self._calls[request_id]
            connection.refuse(request_id, RpcFault(INTERNAL_ERROR, "this session has no tools"))
            return
        try:
            result = await ticket.call(wanted.name, wanted.arguments, call_id=wanted.call_id)
            answer = self._host.codec.tool_answer(result)
            if self._calls.pop(request_id, None) is not None:
                connection.answer(request_id, answer)
        finally:
            # If it is not there any more, it was answered, or `drop` has given it up.
            if self._calls.pop(request_id, None) is not None:
                self._give_up(request_id, wanted)

    def _give_up(self, request_id: RpcId, wanted: ToolWanted) -> None:
        fault = RpcFault(INTERNAL_ERROR, f"the call of {wanted.name} was not completed")
        self._host.connection.refuse(request_id, fault)
