"""The table: which connection speaks for which binding. Pure decisions; the shell does what they say.

Rules: a connection is admitted once, by its hello, and never moves to another binding. Whatever is wrong with a hello,
the caller learns only that it was refused; the cause is for our counters. The first process that presents a token is
the only one that it is good for. That process may connect again and displaces its old connection. A token that a second
process presents is known to somebody it was not given to, and nobody can tell which of the two: it is refused, and the
binding is `Compromised`, to be given up. Where the platform cannot tell processes apart, any may come when the old
connection is gone.
Tokens are looked up as keyed digests only, and the peer's ancestry, for which the system has to be asked, is read
before any is looked up: how long an answer takes says nothing of how near a token is to a right one.
"""

import enum
from dataclasses import dataclass, field

from ostler.bridge.binding import Binding, PeerIdentity
from ostler.bridge.errors import TokenCollision


class RejectReason(enum.Enum):
    """Why a peer was refused. Counted, never told."""

    MALFORMED = "malformed"
    VERSION = "version"
    UNKNOWN = "unknown"
    FOREIGN = "foreign"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class RelayPeer:
    """Who is at the other end: the process itself first, then its ancestors. Empty where the platform cannot tell."""

    ancestry: tuple[PeerIdentity, ...] = ()

    @property
    def process(self) -> PeerIdentity | None:
        return self.ancestry[0] if self.ancestry else None

    def descends_from(self, owner: PeerIdentity) -> bool:
        return owner in self.ancestry


@dataclass(slots=True)
class ConnectionSlot:
    """A binding in the table and the connection that speaks for it."""

    binding: Binding
    connection: int | None = None
    process: PeerIdentity | None = None


@dataclass(frozen=True, slots=True)
class AdmittedClient:
    """`displaced` must be closed. `resumed`: the same client came back, what it asked for is still owed to it."""

    binding: Binding
    displaced: int | None
    resumed: bool


@dataclass(frozen=True, slots=True)
class Compromised:
    """Refused as `Cause.SECOND`. `binding` must be given up: either of its two processes may be the thief."""

    binding: Binding


@dataclass(slots=True)
class Bindings:
    tells_processes: bool
    _places: dict[bytes, ConnectionSlot] = field(default_factory=dict)
    _by_connection: dict[int, ConnectionSlot] = field(default_factory=dict)

    def issue(self, digest: bytes, binding: Binding) -> None:
        if digest in self._places:
            raise TokenCollision
        self._places[digest] = ConnectionSlot(binding)

    def admit(self, connection: int, digest: bytes, peer: RelayPeer) -> AdmittedClient | Compromised | RejectReason:
        place = self._places.get(digest)
        if place is None:
            return RejectReason.UNKNOWN
        if self._foreign(place.binding, peer):
            return RejectReason.FOREIGN
        same = place.process is not None and place.process == peer.process
        taken = place.process is not None or place.connection is not None
        if taken and not same:
            return Compromised(place.binding)
        displaced = place.connection
        if displaced is not None:
            del self._by_connection[displaced]
        place.connection = connection
        place.process = peer.process
        self._by_connection[connection] = place
        return AdmittedClient(place.binding, displaced, resumed=same)

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

    def _foreign(self, binding: Binding, peer: RelayPeer) -> bool:
        if not self.tells_processes:
            return False
        if peer.process is None:
            return True  # it vanished while we looked, and nothing could be held against it later
        return binding.owner is not None and not peer.descends_from(binding.owner)
