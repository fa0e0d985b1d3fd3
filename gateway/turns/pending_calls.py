"""Calls of an agent that wait for an answer: function calls that the client executes, and permission requests.

Rules:
- A `PendingCalls` belongs to one running turn and ends with it. Its `dispatch` is what the bridge calls; everything
  else is decided synchronously.
- A permission request is a call whose answer is yes or no; no answer counts as no.
- Calls that arrive together are handed to the client together: the first one starts a short gathering, whose end puts
  one event into the turn. Calls that arrive while the client works on earlier ones wait for the next handover.
- A call is answered once. After `close`, every call is answered at once with an error for the agent to read.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import orjson

from ostler.bridge.calls import CallResult, ToolCall
from ostler.gateway.turns.host_events import CallsReady, CallsWaiting, PermissionPending
from ostler.pool.events import HostEvent, PermissionAsked
from ostler.pool.permission_facts import details

GRANTED = CallResult.text("permission granted")
ALWAYS = CallResult.text("permission granted for this session")
"""Granted also for later requests of the same kind in this session."""
REFUSED = CallResult.error("permission refused")


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission request as it is shown to a person."""

    id: str
    title: str
    arguments: str


@dataclass(eq=False, slots=True)
class AskedCall:
    """One call on its way to the client and back."""

    call_id: str
    name: str
    arguments: str
    answer: "asyncio.Future[CallResult]"
    handed: bool = False
    permission: PermissionAsked | None = None
    """The request, if the call is a permission request."""


class PendingCalls:
    """The parked calls of one turn."""

    def __init__(
        self, put: Callable[[HostEvent], None], new_id: Callable[[str], str], gather: float, *, parallel: bool = True
    ) -> None:
        self._put = put
        self._new_id = new_id
        self._gather = gather
        self._gathering: asyncio.TimerHandle | None = None
        self._closed: str | None = None
        self._parallel = parallel
        """Whether the client accepts several calls at once."""
        self.calls: dict[str, AskedCall] = {}
        """Unanswered calls, in the order of their arrival."""
        self._handed: set[str] = set()
        self.taken: set[str] = set()
        """Calls whose results have arrived, whether or not the agent has them yet."""

    async def dispatch(self, call: ToolCall, /) -> CallResult:
        """Park a call until the client has answered it."""
        if self._closed is not None:
            return CallResult.error(f"{call.name}: {self._closed}")
        answer: asyncio.Future[CallResult] = asyncio.get_running_loop().create_future()
        return await self._park(AskedCall(self._new_id("call"), call.name, written(call.arguments), answer))

    async def permit(self, question: PermissionAsked, *, hands_over: bool) -> CallResult | None:
        """Park a permission request until it is answered with yes (`GRANTED`, `ALWAYS`) or no. None: no answer can come
        any more."""
        if self._closed is not None:
            return None
        answer: asyncio.Future[CallResult] = asyncio.get_running_loop().create_future()
        arguments = written(details(question))
        asked = AskedCall(self._new_id("mcpr"), question.title or "permission", arguments, answer, permission=question)
        if not hands_over:
            self._hand(asked)
            self._put(PermissionPending({"id": asked.call_id, "title": asked.name, "arguments": asked.arguments}))
        said = await self._park(asked)
        return None if self._closed is not None else said

    @property
    def permissions(self) -> list[Permission]:
        """Permission requests that wait for an answer, the oldest first."""
        waiting = [call for call in self.waiting if call.permission is not None]
        return [Permission(call.call_id, call.name, call.arguments) for call in waiting]

    async def _park(self, asked: AskedCall) -> CallResult:
        self.calls[asked.call_id] = asked
        self.announce()
        try:
            return await asked.answer
        finally:
            self.calls.pop(asked.call_id, None)

    def announce(self) -> None:
        """Start a gathering for new calls, unless one is under way or the client is still working on earlier ones."""
        if self._gathering is None and self.fresh and not self.waiting:
            wait = self._gather if self._parallel else 0.0
            self._gathering = asyncio.get_running_loop().call_later(wait, self._ready)

    @property
    def fresh(self) -> list[AskedCall]:
        """Calls that the client does not know of yet."""
        return [call for call in self.calls.values() if not call.handed and not call.answer.done()]

    @property
    def waiting(self) -> list[AskedCall]:
        """Calls that the client knows of and has not answered."""
        return [call for call in self.calls.values() if call.handed and not call.answer.done()]

    def hand_over(self) -> list[AskedCall]:
        """Mark the new calls as handed over, and return them; only the first if the client takes one at a time."""
        taken = self.fresh if self._parallel else self.fresh[:1]
        for call in taken:
            self._hand(call)
        return taken

    def settled(self, call_id: str) -> bool:
        """Whether this call was handed over and needs no answer any more."""
        return call_id in self._handed and call_id not in {call.call_id for call in self.waiting}

    def missing(self, answered: Iterable[str]) -> list[str]:
        """Return the ids of handed-over calls that these answers leave open."""
        given = set(answered)
        return [call.call_id for call in self.waiting if call.call_id not in given]

    def answer(self, call_id: str, result: CallResult) -> bool:
        """Pass the result to the agent. False for a call that is not waiting."""
        call = self.calls.get(call_id)
        if call is None or not call.handed or call.answer.done():
            return False
        call.answer.set_result(result)
        return True

    def still_here(self) -> None:
        """Put a sign of life into the turn, for its inactivity limit: the agent is not silent, it waits for the
        client."""
        self._put(CallsWaiting())

    def close(self, why: str) -> None:
        """Accept no more calls: those that wait, and all later ones, are answered with the error `why`."""
        if self._closed is None:
            self._closed = why
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        for call in tuple(self.calls.values()):
            if not call.answer.done():
                call.answer.set_result(CallResult.error(f"{call.name}: {why}"))

    def _hand(self, call: AskedCall) -> None:
        call.handed = True
        self._handed.add(call.call_id)

    def _ready(self) -> None:
        self._gathering = None
        self._put(CallsReady())


def written(arguments: object) -> str:
    """Return the arguments as JSON text."""
    return orjson.dumps(arguments, default=str).decode()
