"""Finds the warm session of a client that keeps no session and resends the whole conversation each time: if the resent
conversation is exactly that of a session, the request continues there.

Rules:
- The match is exact, over roles, texts, calls and results, the model, the directory and the instructions.
- A match is taken once: a second request with the same beginning diverges from the first, and gets a session of its
  own.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from ostler.gateway.model.ask import Entry

KnownPrefix = tuple[str, str]
"""An owner, and the digest of a conversation."""


@dataclass(frozen=True, slots=True)
class ConversationEnd:
    """A session, as it was at the end of one of its answers."""

    session_id: str
    answer_id: str


class Prefixes:
    """The last conversations of clients without a session, newest last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sessions: OrderedDict[KnownPrefix, ConversationEnd] = OrderedDict()

    def learn(self, owner: str, digest: str, ending: ConversationEnd) -> None:
        """Record that this session contained exactly this conversation when that answer ended."""
        self._sessions[owner, digest] = ending
        self._sessions.move_to_end((owner, digest))
        if len(self._sessions) > self._most:
            self._sessions.popitem(last=False)

    def find(self, owner: str, digest: str) -> ConversationEnd | None:
        """Return the session end with exactly this conversation, or None."""
        return self._sessions.get((owner, digest))

    def take(self, owner: str, digest: str) -> None:
        """Forget the match: the session continues from here, so it does not end here any more."""
        self._sessions.pop((owner, digest), None)


def digest_of(seed: Sequence[str | None], entries: Sequence[Entry]) -> str:
    """Return one digest for a conversation. Pieces of one answer count as one, however they were cut."""
    lines: list[list[object]] = []
    for role, text, item in entries:
        if item.get("type") == "reasoning":
            continue
        if item.get("type") == "function_call":
            lines.append(["call", item.get("name"), item.get("arguments"), item.get("call_id")])
        elif item.get("type") == "function_call_output":
            lines.append(["output", item.get("call_id"), text])
        elif lines and lines[-1][0] == role == "assistant":
            lines[-1][1] = f"{lines[-1][1]}{text}"
        elif text or role != "assistant":
            lines.append([role, text])
    return hashlib.sha256(orjson.dumps([*seed, lines])).hexdigest()
