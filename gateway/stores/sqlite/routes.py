"""Session keys and the sessions they lead to, and the recovery of a lost route."""

from ostler.gateway.model.errors import RouteMoved
from ostler.gateway.model.records import NewSession, RouteSwitch, RoutingRecord, SessionChange, SessionRecord
from ostler.gateway.stores.sqlite import sessions
from ostler.gateway.stores.sqlite.connection import Connection, one_row, run
from ostler.gateway.stores.sqlite.messages import require_session

LATEST = (
    "SELECT s.id FROM sessions s WHERE s.key = ? AND s.platform IS ? AND s.ended_at IS NULL AND s.message_count > 0 "
    "ORDER BY s.activity DESC, s.seq DESC LIMIT 1"
)
SET = (
    "INSERT INTO routing (session_key, session_id, platform, updated_at) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (session_key) DO UPDATE SET session_id = excluded.session_id, "
    "platform = ifnull(excluded.platform, platform), updated_at = excluded.updated_at"
)


def route(db: Connection, key: str) -> RoutingRecord | None:
    row = one_row(db, "SELECT session_key, session_id, platform, updated_at FROM routing WHERE session_key = ?", (key,))
    return None if row is None else RoutingRecord(*row)


def set_route(db: Connection, key: str, session_id: str, platform: str | None, now: float) -> None:
    require_session(db, session_id)
    run(db, SET, (key, session_id, platform, now))


def recover(db: Connection, key: str, platform: str | None, now: float) -> RoutingRecord | None:
    found = route(db, key)
    if found is not None:
        return found
    latest = one_row(db, LATEST, (key, platform))
    if latest is None:
        return None
    run(db, SET, (key, latest[0], platform, now))
    return route(db, key)


def switch(db: Connection, change: RouteSwitch, now: float) -> SessionRecord:
    found = route(db, change.key)
    leads = None if found is None else found.session_id
    ends = change.reason is not None and change.leaving is not None
    if leads != change.leaving or (ends and not sessions.end(db, str(leads), str(change.reason), now)):
        raise RouteMoved(change.key, leads)
    if ends and change.finalizes:
        sessions.update(db, str(leads), SessionChange(expiry_finalized=True))
    if isinstance(change.target, NewSession):
        session = sessions.create(db, change.target, now)
    else:
        sessions.reopen(db, change.target)
        sessions.touch(db, change.target, now)
        session = sessions.require(db, change.target)
    run(db, SET, (change.key, session.id, change.platform, now))
    return session
