"""Answers to an agent's questions for permission, as they come in over the API.

Rules:
- A question is answered once. Whoever answers one that was answered already, by whomever, or whose turn is over, is
  told so: nobody would hear it, and the client would believe that it had decided something.
- Only a question of the caller's own sessions is answered. Of what is somebody else's nothing is told and nothing used
  up: for this caller it is unknown.
- A question that was lost with an earlier life of the gateway is neither: it is part of the conversation, and the first
  answer to it is taken into a new turn.
"""

from collections.abc import Sequence

from ostler.gateway.model.api_error import ApiError
from ostler.gateway.model.ask import CallOutput
from ostler.gateway.model.records import ParkedCall, ParkState
from ostler.gateway.turns.sessions import Sessions

KIND = "mcp_approval_response"


class Settled(ApiError):
    """A decision that nobody waits for."""

    def __init__(self, approval_id: str) -> None:
        text = (
            f"approval request {approval_id[:100]!r} waits for no decision any more: it was answered, or its turn is "
            "over; send a message to go on, and the agent asks again where it has to"
        )
        super().__init__(409, text, param="input", code="approval_settled")
        self.approval_id = approval_id


class PermissionAnswers:
    """Knows what was asked."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._store = sessions.house.store

    async def check(self, outputs: Sequence[CallOutput], owner: str) -> None:
        """Raise `Settled` where one of them comes too late. What is unknown is somebody else's to refuse."""
        for name in decided(outputs):
            asked = await self._of_owner(name, owner)
            if asked is None:
                continue
            if asked.state != ParkState.WAITING or self._sessions.settled(asked.session_id, name):
                raise Settled(name)

    async def claim(self, outputs: Sequence[CallOutput], owner: str) -> None:
        """Take them into a new turn. Of two who bring the same answer one raises `Settled`."""
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
        """The turn that waited a moment ago waits no more: raise `Settled` if it was for one of these."""
        for name in decided(outputs):
            raise Settled(name)


def decided(outputs: Sequence[CallOutput]) -> list[str]:
    """The questions that are answered."""
    return [output.call_id for output in outputs if output.item.get("type") == KIND]
