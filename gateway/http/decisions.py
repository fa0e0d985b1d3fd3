"""Answers to an agent's permission requests that arrive over the API.

Rules:
- A request is answered once. A late answer, to a request that is answered already or whose turn is over, is refused
  with 409: it would have no effect, and the client would believe that it had decided something.
- A caller can answer only requests of its own sessions. A request of another owner is unknown to this caller: the
  answer reveals nothing and uses nothing up.
- A request that was open when an earlier run of the gateway ended is neither late nor unknown: it is part of the
  conversation, and the first answer to it goes into a new turn.
"""

from collections.abc import Sequence

from ostler.gateway.model.api_error import ApiError
from ostler.gateway.model.ask import CallOutput
from ostler.gateway.model.records import ParkedCall, ParkState
from ostler.gateway.turns.sessions import Sessions

KIND = "mcp_approval_response"


class Settled(ApiError):
    """A decision that came too late: its permission request needs no answer any more."""

    def __init__(self, approval_id: str) -> None:
        text = (
            f"approval request {approval_id[:100]!r} waits for no decision any more: it was answered, or its turn is "
            "over; send a message to go on, and the agent asks again where it has to"
        )
        super().__init__(409, text, param="input", code="approval_settled")
        self.approval_id = approval_id


class PermissionAnswers:
    """Checks decisions against the permission requests of a session, live and stored."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._store = sessions.deps.store

    async def check(self, outputs: Sequence[CallOutput], owner: str) -> None:
        """Raise `Settled` if one of the decisions comes too late. Unknown requests are left to other checks."""
        for name in decided(outputs):
            asked = await self._of_owner(name, owner)
            if asked is None:
                continue
            if asked.state != ParkState.WAITING or self._sessions.settled(asked.session_id, name):
                raise Settled(name)

    async def claim(self, outputs: Sequence[CallOutput], owner: str) -> None:
        """Accept the decisions for a new turn. Of two requests with the same decision one raises `Settled`."""
        words = {output.call_id: output.text for output in outputs}
        for name in decided(outputs):
            if await self._of_owner(name, owner) is None:
                continue
            asked = await self._store.answer(name, words[name])
            if asked is not None and asked.state != ParkState.WAITING:
                raise Settled(name)

    async def _of_owner(self, name: str, owner: str) -> ParkedCall | None:
        asked = await self._store.parked_call(name)
        session = None if asked is None else await self._store.get_session(asked.session_id)
        return asked if session is not None and (session.owner or "") == owner else None

    @staticmethod
    def refuse(outputs: Sequence[CallOutput]) -> None:
        """Raise `Settled` if a decision was for the turn that waited a moment ago and does not wait any more."""
        for name in decided(outputs):
            raise Settled(name)


def decided(outputs: Sequence[CallOutput]) -> list[str]:
    """Return the ids of the permission requests that are answered."""
    return [output.call_id for output in outputs if output.item.get("type") == KIND]
