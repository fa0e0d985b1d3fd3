"""Bring store and mirror in line when a session is resumed.

Rules:
- A message that the mirror has and the store never had goes back into the store, in order, once. A message that the
  store holds as undone or summarised is not missing.
- A message is recognised by its content and time, not by an id: a store that lost rows gives their ids to new ones.
- Afterwards the mirror is rewritten from the store, so a second healing finds nothing to do. That holds after a crash
  between the two steps too: what was put back is in the store and no longer missing.
- `merged` decides and does no I/O.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model.records import MessageRecord, NewMessage
from ostler.gateway.model.store import Store
from ostler.gateway.stores.mirror import Mirror, line_of


@dataclass(frozen=True, slots=True)
class Healed:
    """What a healing did, to be reported to the user if it changed anything."""

    put_back: int
    unreadable: int
    rewritten: bool
    """Whether the mirror differed from the store and was rewritten."""


@dataclass(frozen=True, slots=True)
class Merge:
    missing: tuple[NewMessage, ...]
    transcript: tuple[NewMessage, ...]
    """The whole transcript with the missing messages in their places."""
    at_end: bool
    """Whether every missing message belongs after the stored ones, so that they can be appended."""


def merged(mirrored: Sequence[NewMessage], stored: Sequence[MessageRecord]) -> Merge:
    """Find the messages that only the mirror has, and place each after its neighbour in the mirror."""
    known = Counter(line_of(message) for message in stored)
    active = [message for message in stored if message.active]
    places: dict[bytes, list[int]] = {}
    for place, kept in enumerate(active):
        places.setdefault(line_of(kept), []).append(place)
    put: list[list[NewMessage]] = [[] for _ in range(len(active) + 1)]
    missing: list[NewMessage] = []
    behind = 0
    for message in mirrored:
        line = line_of(message)
        if known[line] > 0:
            known[line] -= 1
            if places.get(line):
                behind = max(behind, places[line].pop(0) + 1)
            continue
        missing.append(message)
        put[behind].append(message)
    transcript = list(put[0])
    for place, kept in enumerate(active):
        transcript += [kept.again(), *put[place + 1]]
    return Merge(tuple(missing), tuple(transcript), at_end=not any(put[:-1]))


async def put_back(store: Store, session_id: str, mirrored: Sequence[NewMessage]) -> int:
    """Store the missing messages; return how many there were."""
    merge = merged(mirrored, await store.audit(session_id))
    if merge.missing and merge.at_end:
        await store.append(session_id, merge.missing)
    elif merge.missing:
        await store.rewrite_transcript(session_id, merge.transcript)
    return len(merge.missing)


async def heal(store: Store, mirror: Mirror, session_id: str) -> Healed:
    """Bring store and mirror in line. The session must exist in the store."""
    reading = await asyncio.to_thread(mirror.read, session_id)
    missing = await put_back(store, session_id, reading.messages)
    transcript = await store.history(session_id)
    differs = [line_of(m) for m in transcript] != [line_of(m) for m in reading.messages] or reading.unreadable > 0
    if differs and (transcript or reading.exists):
        await asyncio.to_thread(mirror.rewrite, session_id, transcript)
        return Healed(missing, reading.unreadable, rewritten=True)
    return Healed(missing, reading.unreadable, rewritten=False)
