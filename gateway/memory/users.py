"""Whose conversation a session is: the privacy gate of memory.

Rules:
- A session of the OpenAI API belongs to the API key that made it; "" is the one person of a gateway without keys.
- A session of a chat face belongs to that key and to the place it was held in: behind one key may stand a platform
  with many people, and what one chat may see ends there.
- A session of nobody in particular (an old import) is a user of its own: what is said there stays there.
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
    """The user that memory keeps this session's words for. Two names that differ never become one."""
    if session is None or session.owner is None:
        return f"session:{session_id}"
    owner = quote(session.owner, safe="")
    return owner if session.chat is None else f"{owner}/{quote(session.chat, safe='')}"


class Users:
    """The users of sessions: owner and place never change once they are set."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._known: OrderedDict[str, str] = OrderedDict()

    async def of(self, session_id: str) -> str:
        """The user of a session. Never raises: where the store cannot tell, the session is kept to itself."""
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
