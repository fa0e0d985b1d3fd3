"""Decides which user a session belongs to: this keeps users apart in memory.

Rules:
- A session of the OpenAI API belongs to the API key that created it; "" is the only user of a gateway without keys.
- A session of a chat surface belongs to that key and to the place of the chat: behind one key may be a platform with
  many users, and one chat must not see what was said in another.
- A session without an owner (an old import) is a user of its own: what is said there stays there.
"""

import logging
from collections import OrderedDict
from typing import Final
from urllib.parse import quote

from ostler.gateway.model.errors import StoreError
from ostler.gateway.model.records import SessionRecord
from ostler.gateway.model.store import SessionStore

log = logging.getLogger("ostler.memory")

KEPT: Final = 10_000


def user_of(session: SessionRecord | None, session_id: str) -> str:
    """The user under which memory keeps this session. Different names never give the same user."""
    if session is None or session.owner is None:
        return f"session:{session_id}"
    owner = quote(session.owner, safe="")
    return owner if session.chat is None else f"{owner}/{quote(session.chat, safe='')}"


class Users:
    """Looks up and caches the users of sessions: owner and place of a session never change once they are set."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._known: OrderedDict[str, str] = OrderedDict()

    async def of(self, session_id: str) -> str:
        """The user of a session. Never raises: if the store fails, the session counts as a user of its own."""
        known = self._known.get(session_id)
        if known is not None:
            self._known.move_to_end(session_id)
            return known
        try:
            record = await self._store.get_session(session_id)
        except StoreError as error:
            log.warning("memory keeps session %s to itself, its owner cannot be read: %s", session_id, error)
            return user_of(None, session_id)
        user = user_of(record, session_id)
        if record is not None and record.owner is not None:
            self._known[session_id] = user
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return user
