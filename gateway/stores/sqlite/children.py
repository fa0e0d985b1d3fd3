"""A child session: a branch of another, or what it was compressed into. Made whole or not at all."""

from collections.abc import Sequence

from ostler.gateway.records import NewSession, SessionRecord
from ostler.gateway.stores.sqlite import messages, sessions
from ostler.gateway.stores.sqlite.connection import Connection
from ostler.gateway.stores.sqlite.messages import Written


def derive(
    db: Connection, child: NewSession, said: Sequence[Written] | None, end_parent: str | None, now: float
) -> SessionRecord:
    """`said` None: a copy of the parent's transcript."""
    parent_id = str(child.parent_id)
    sessions.require(db, parent_id)
    sessions.create(db, child, now)
    messages.append(db, child.id, messages.copied(db, parent_id) if said is None else said, now)
    if end_parent is not None:
        sessions.end(db, parent_id, end_parent, now)
        sessions.lead_to_child(db, parent_id, child.id)
    return sessions.require(db, child.id)
