"""Which claim is next.

Rules: round-robin by owner, first come first served within an owner. An owner that returns joins at the end (else
leaving and returning would be the way to the front).
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ostler.pool.core.values import ClaimId, Key, LeaseId, MissReason, Owner, QueueId


@dataclass(slots=True, eq=False)
class Waiting:
    """A claim without an outcome yet."""

    claim: ClaimId
    key: Key
    queue: QueueId
    owner: Owner
    deadline: float
    parent: LeaseId | None
    since: float
    step: int
    miss: MissReason = MissReason.NONE


@dataclass(slots=True, eq=False)
class FairQueue:
    """The claims that any one seat of a seat queue would satisfy."""

    owners: OrderedDict[Owner, OrderedDict[ClaimId, Waiting]] = field(default_factory=OrderedDict)
    count: int = 0

    def add(self, waiting: Waiting) -> None:
        self.owners.setdefault(waiting.owner, OrderedDict())[waiting.claim] = waiting
        self.count += 1

    def remove(self, waiting: Waiting) -> None:
        claims = self.owners[waiting.owner]
        del claims[waiting.claim]
        if not claims:
            del self.owners[waiting.owner]
        self.count -= 1

    def head(self) -> Waiting | None:
        for claims in self.owners.values():
            return next(iter(claims.values()))
        return None

    def served(self, owner: Owner) -> None:
        """The owner had its turn: move it behind the others."""
        if owner in self.owners:
            self.owners.move_to_end(owner)

    def __iter__(self) -> Iterator[Waiting]:
        for claims in self.owners.values():
            yield from claims.values()


@dataclass(slots=True, eq=False)
class OwnerTurns:
    """When each waiting owner last had its turn, over all keys. It decides between seat queues and between keys."""

    serial: int = 0
    last: dict[Owner, int] = field(default_factory=dict)
    waiting: dict[Owner, int] = field(default_factory=dict)

    def join(self, owner: Owner) -> None:
        self.waiting[owner] = self.waiting.get(owner, 0) + 1
        if owner not in self.last:
            self.took(owner)

    def leave(self, owner: Owner) -> None:
        self.waiting[owner] -= 1
        if not self.waiting[owner]:
            del self.waiting[owner], self.last[owner]

    def took(self, owner: Owner) -> None:
        self.serial += 1
        self.last[owner] = self.serial

    def of(self, waiting: Waiting | None) -> int:
        """The rank of a head claim, lowest first; a queue without claims comes last."""
        return self.serial + 1 if waiting is None else self.last[waiting.owner]
