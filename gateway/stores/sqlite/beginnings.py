"""Begin a turn, or take a beginning back if the agent was never prompted: each in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ostler.gateway.model import continuity
from ostler.gateway.model.errors import CallsAnswered, ConversationMoved
from ostler.gateway.model.records import EndReason, SessionChange, TakenBack, TurnBegin
from ostler.gateway.stores.sqlite import messages, parked, responses, sessions
from ostler.gateway.stores.sqlite.connection import Connection, SqlRow, value
from ostler.gateway.stores.sqlite.json import write_json
from ostler.gateway.stores.sqlite.messages import Written
from ostler.gateway.stores.sqlite.responses import Room


@dataclass(frozen=True, slots=True)
class BeginRows:
    """The beginning of a turn, encoded as rows in the caller's thread."""

    session_id: str
    said: Sequence[Written]
    response: SqlRow | None
    answers: Mapping[str, str]
    instructions: str | None
    now: float


def rows_of(turn: TurnBegin, now: float) -> BeginRows:
    return BeginRows(
        turn.session_id,
        messages.written(turn.messages, now),
        None if turn.response is None else responses.row_of(turn.response),
        {call_id: write_json(output) for call_id, output in turn.answers.items()},
        turn.instructions,
        now,
    )


def begin(db: Connection, turn: BeginRows, room: Room) -> list[int]:
    if value(db, "SELECT end_reason FROM sessions WHERE id = ?", (turn.session_id,)) == EndReason.COMPRESSION:
        raise ConversationMoved(turn.session_id)
    found = (parked.one(db, call_id) for call_id in turn.answers)
    # A client may also send results of calls of another session: those calls stay open (n37).
    known = [call for call in found if call is not None and call.session_id == turn.session_id]
    taken = continuity.answered_before({call.call_id: call.state for call in known})
    if taken:
        raise CallsAnswered(taken)
    for call in known:
        parked.close(db, call.call_id, turn.answers[call.call_id])
    ids = messages.append(db, turn.session_id, turn.said, turn.now)
    if turn.response is not None:
        responses.save(db, turn.response, room)
    if turn.instructions is not None:
        sessions.update(db, turn.session_id, SessionChange(instructions=turn.instructions))
    return ids


def take_back(db: Connection, turn: TakenBack) -> None:
    messages.deactivate(db, turn.session_id, turn.messages)
    for call_id in turn.calls:
        parked.reopen(db, call_id)
    if turn.instructions is not None:
        sessions.update(db, turn.session_id, SessionChange(instructions=turn.instructions))
