"""Function calls that wait for an API client: they survive a restart of the gateway, but not their deadline."""

from collections.abc import Sequence

from ostler.gateway.model.records import ParkedCall, ParkState
from ostler.gateway.stores.sqlite.connection import Connection, SqlRow, all_rows, one_row, run
from ostler.gateway.stores.sqlite.json import read_json, write_json

COLUMNS = "call_id, session_id, response_id, name, arguments, deadline, created_at, state, output"
PARK = f"INSERT INTO parked_calls ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (call_id) DO NOTHING"


def row_of(call: ParkedCall) -> SqlRow:
    output = None if call.output is None else write_json(call.output)
    facts = (call.call_id, call.session_id, call.response_id, call.name, call.arguments, call.deadline, call.created_at)
    return (*facts, str(call.state), output)


def record(row: SqlRow) -> ParkedCall:
    return ParkedCall(*(*row[:8], None if row[8] is None else read_json(row[8])))


def park(db: Connection, rows: Sequence[Sequence[object]]) -> None:
    for row in rows:
        run(db, PARK, row)


def answer(db: Connection, call_id: str, output: str) -> ParkedCall | None:
    found = one(db, call_id)
    sql = "UPDATE parked_calls SET state = ?, output = ? WHERE call_id = ? AND state = ?"
    run(db, sql, (str(ParkState.ANSWERED), output, call_id, str(ParkState.WAITING)))
    return found


def close(db: Connection, call_id: str, output: str) -> None:
    """Record an answer, even to a call whose deadline has passed."""
    sql = "UPDATE parked_calls SET state = ?, output = ? WHERE call_id = ?"
    run(db, sql, (str(ParkState.ANSWERED), output, call_id))


def reopen(db: Connection, call_id: str) -> None:
    run(db, "UPDATE parked_calls SET state = ?, output = NULL WHERE call_id = ?", (str(ParkState.WAITING), call_id))


def one(db: Connection, call_id: str) -> ParkedCall | None:
    row = one_row(db, f"SELECT {COLUMNS} FROM parked_calls WHERE call_id = ?", (call_id,))
    return None if row is None else record(row)


def give_up(db: Connection, call_ids: Sequence[str]) -> None:
    for call_id in call_ids:
        sql = "UPDATE parked_calls SET state = ? WHERE call_id = ? AND state = ?"
        run(db, sql, (str(ParkState.EXPIRED), call_id, str(ParkState.WAITING)))


def listed(db: Connection, session_id: str | None, waiting: bool) -> list[ParkedCall]:
    sql = (
        f"SELECT {COLUMNS} FROM parked_calls WHERE (?1 IS NULL OR session_id = ?1) AND (NOT ?2 OR state = ?3) "
        "ORDER BY rowid"
    )
    return [record(row) for row in all_rows(db, sql, (session_id, waiting, str(ParkState.WAITING)))]


def expire(db: Connection, now: float | None) -> list[ParkedCall]:
    where = "state = ?1 AND (?2 IS NULL OR deadline <= ?2)"
    values = (str(ParkState.WAITING), now)
    late = [
        record(row) for row in all_rows(db, f"SELECT {COLUMNS} FROM parked_calls WHERE {where} ORDER BY rowid", values)
    ]
    run(db, f"UPDATE parked_calls SET state = ?3 WHERE {where}", (*values, str(ParkState.EXPIRED)))
    return late
