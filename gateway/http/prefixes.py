"""Clients that keep no session resend the whole conversation each time. What they resend, exactly as the session has
it, leads to the warm seat that holds it already.

Rules: the match is exact, over roles, texts, calls and results, the model, the directory and the instructions. A match
is taken once: whoever comes second with the same beginning diverges, and gets a session of their own.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from ostler.gateway.model.ask import Entry

KnownPrefix = tuple[str, str]
"""(owner, digest)"""


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
        """This session held exactly this conversation when that answer ended."""
        self._sessions[owner, digest] = ending
        self._sessions.move_to_end((owner, digest))
        if len(self._sessions) > self._most:
            self._sessions.popitem(last=False)

    def find(self, owner: str, digest: str) -> ConversationEnd | None:
        """Who held it."""
        return self._sessions.get((owner, digest))

    def take(self, owner: str, digest: str) -> None:
        """The session goes on from here, so it no longer ends here."""
        self._sessions.pop((owner, digest), None)


def digest_of(seed: Sequence[str | None], entries: Sequence[Entry]) -> str:
    """One word for a conversation. Pieces of one answer count as one, however they were cut."""
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
