"""A child session: a branch of another, or what it was compressed into. Made whole or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model.records import NewSession, SessionRecord
from ostler.gateway.stores.sqlite import messages, sessions
from ostler.gateway.stores.sqlite.connection import Connection
from ostler.gateway.stores.sqlite.messages import Written


@dataclass(frozen=True, slots=True)
class Derived:
    """A child to be made."""

    born: NewSession
    """With its `parent_id`."""
    said: Sequence[Written] | None
    """None: a copy of the parent's transcript."""
    end_parent: str | None
    behind: int | None
    """And what the parent has behind that message."""


def derive(db: Connection, child: Derived, now: float) -> SessionRecord:
    parent_id, born = str(child.born.parent_id), child.born.id
    sessions.require(db, parent_id)
    sessions.create(db, child.born, now)
    messages.append(db, born, messages.copied(db, parent_id) if child.said is None else child.said, now)
    if child.behind is not None:
        messages.append(db, born, messages.copied(db, parent_id, child.behind), now)
    if child.end_parent is not None:
        sessions.end(db, parent_id, child.end_parent, now)
        sessions.lead_to_child(db, parent_id, born)
    return sessions.require(db, born)
