"""Derive a child session: a branch of another session, or its continuation after compression. All or nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model.records import NewSession, SessionRecord
from ostler.gateway.stores.sqlite import messages, sessions
from ostler.gateway.stores.sqlite.connection import Connection
from ostler.gateway.stores.sqlite.messages import Written


@dataclass(frozen=True, slots=True)
class Derived:
    """A child session to be created."""

    born: NewSession
    """Must have its `parent_id` set."""
    said: Sequence[Written] | None
    """The messages of the child; None copies the parent's transcript."""
    end_parent: str | None
    behind: int | None
    """The child also gets the parent's messages after this message id."""


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
