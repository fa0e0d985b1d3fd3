"""The table: which connection speaks for which binding. Pure decisions; the shell does what they say.

Rules: a connection is admitted once, by its hello, and never moves to another binding. Whatever is wrong with a hello,
the caller learns only that it was refused; the cause is for our counters. One binding has at most one connection:
the same process may come back and displaces its old connection, any process may come when the old one is gone, and a
second process beside a live one is refused, because then somebody has a token that is not theirs.
Tokens are looked up as keyed digests only, and the peer's ancestry, for which the system has to be asked, is read
before any is looked up: how long an answer takes says nothing of how near a token is to a right one.
"""

import enum
from dataclasses import dataclass, field

from ostler.bridge.binding import Binding, ProcessIdentity
from ostler.bridge.errors import TokenCollision


class Cause(enum.Enum):
    """Why a peer was refused. Counted, never told."""

    MALFORMED = "malformed"
    VERSION = "version"
    UNKNOWN = "unknown"
    FOREIGN = "foreign"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end: the process itself first, then its ancestors. Empty where the platform cannot tell."""

    ancestry: tuple[ProcessIdentity, ...] = ()

    @property
    def process(self) -> ProcessIdentity | None:
        return self.ancestry[0] if self.ancestry else None

    def descends_from(self, owner: ProcessIdentity) -> bool:
        return owner in self.ancestry


@dataclass(slots=True)
class Place:
    """A binding in the table and the connection that speaks for it."""

    binding: Binding
    connection: int | None = None
    process: ProcessIdentity | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """`displaced` must be closed. `resumed`: the same client came back, what it asked for is still owed to it."""

    binding: Binding
    displaced: int | None
    resumed: bool


@dataclass(slots=True)
class Bindings:
    tells_processes: bool
    _places: dict[bytes, Place] = field(default_factory=dict)
    _by_connection: dict[int, Place] = field(default_factory=dict)

    def issue(self, digest: bytes, binding: Binding) -> None:
        if digest in self._places:
            raise TokenCollision
        self._places[digest] = Place(binding)

    def admit(self, connection: int, digest: bytes, peer: Peer) -> Admitted | Cause:
        place = self._places.get(digest)
        if place is None:
            return Cause.UNKNOWN
        if self._foreign(place.binding, peer):
            return Cause.FOREIGN
        same = place.process is not None and place.process == peer.process
        if place.connection is not None and not same:
            return Cause.SECOND
        displaced = place.connection
        if displaced is not None:
            del self._by_connection[displaced]
        place.connection = connection
        place.process = peer.process
        self._by_connection[connection] = place
        return Admitted(place.binding, displaced, resumed=same)

    def binding_of(self, connection: int) -> Binding | None:
        place = self._by_connection.get(connection)
        return None if place is None else place.binding

    def part(self, connection: int) -> Binding | None:
        """The connection is gone. Returns the binding it spoke for, if it still did."""
        place = self._by_connection.pop(connection, None)
        if place is None:
            return None
        place.connection = None
        return place.binding

    def forget(self, digest: bytes) -> tuple[Binding, int | None]:
        """The token is worth nothing from here on. Returns its binding and the connection that spoke for it."""
        place = self._places.pop(digest)
        if place.connection is not None:
            del self._by_connection[place.connection]
        return place.binding, place.connection

    def __len__(self) -> int:
        return len(self._places)

    def _foreign(self, binding: Binding, peer: Peer) -> bool:
        if binding.owner is None or not self.tells_processes:
            return False
        return not peer.descends_from(binding.owner)
