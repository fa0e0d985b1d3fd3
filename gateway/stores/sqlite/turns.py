"""Commit the end of a turn: messages, response, slug, parked calls and idempotent answer, in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model.records import TurnCommit
from ostler.gateway.stores.sqlite import conversations, idempotency, messages, parked, responses
from ostler.gateway.stores.sqlite.connection import Connection, SqlRow
from ostler.gateway.stores.sqlite.conversations import Lead
from ostler.gateway.stores.sqlite.messages import Written
from ostler.gateway.stores.sqlite.responses import Room


@dataclass(frozen=True, slots=True)
class TurnRows:
    """The end of a turn, encoded as rows in the caller's thread."""

    session_id: str
    said: Sequence[Written]
    response: SqlRow | None
    lead: Lead | None
    calls: Sequence[SqlRow]
    answer: SqlRow | None
    now: float


def rows_of(turn: TurnCommit, now: float) -> TurnRows:
    response, slug, lead = turn.response, turn.slug, None
    if slug is not None:
        owner, made = (turn.owner, None) if response is None else (response.owner, response.id)
        lead = Lead(slug, owner, turn.session_id, made)
    return TurnRows(
        turn.session_id,
        messages.written(turn.messages, now),
        None if response is None else responses.row_of(response),
        lead,
        [parked.row_of(call) for call in turn.parked],
        None if turn.idempotency is None else idempotency.row_of(turn.idempotency),
        now,
    )


def commit(db: Connection, turn: TurnRows, room: Room) -> list[int]:
    ids = messages.append(db, turn.session_id, turn.said, turn.now)
    if turn.response is not None:
        responses.save(db, turn.response, room)
    if turn.lead is not None:
        conversations.note(db, turn.lead, turn.now)
    parked.park(db, turn.calls)
    if turn.answer is not None:
        idempotency.remember(db, turn.answer, turn.now)
    return ids
