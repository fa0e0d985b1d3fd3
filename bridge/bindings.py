"""The table of bindings: which connection speaks for which binding. Pure decisions; `server.py` carries them out.

Rules: a connection is admitted once, by its hello, and never moves to another binding. A refused client never learns
the cause; the cause is counted. A token is good only for the first process that presents it. That process may connect
again and displaces its old connection. A token that a second process presents has leaked, and either process may be the
thief: the second one is refused, and the binding is `Compromised`, to be given up. Where the platform cannot tell
processes apart, any client may connect once the old connection is gone.

Tokens are looked up as keyed digests only. The peer's ancestry, which needs system calls, is read before any lookup:
the time an answer takes tells nothing about how close a token is to a valid one.
"""

import enum
from dataclasses import dataclass, field

from ostler.bridge.binding import Binding, PeerIdentity
from ostler.bridge.errors import TokenCollision


class RejectReason(enum.Enum):
    """Why a connection was refused. Counted, never sent to the client."""

    MALFORMED = "malformed"
    VERSION = "version"
    UNKNOWN = "unknown"
    FOREIGN = "foreign"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class RelayPeer:
    """The process at the other end: itself first, then its ancestors. Empty where the platform cannot tell."""

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
    """Close the connection `displaced`. `resumed`: the same process came back and is still owed its answers."""

    binding: Binding
    displaced: int | None
    resumed: bool


@dataclass(frozen=True, slots=True)
class Compromised:
    """Refused as `RejectReason.SECOND`. `binding` must be given up: either of its two processes may be the thief."""

    binding: Binding


@dataclass(slots=True)
class Bindings:
    """Admits connections to bindings by token digest. `tells_processes`: the platform names a peer's process."""

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

    def part(self, connection: int) -> Binding | None:
        """Note that the connection is gone. Returns the binding it spoke for, if it still did."""
        place = self._by_connection.pop(connection, None)
        if place is None:
            return None
        place.connection = None
        return place.binding

    def forget(self, digest: bytes) -> tuple[Binding, int | None]:
        """Make the token invalid. Returns its binding and the connection that spoke for it."""
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
            return True  # it exited during the check, so there is no identity to compare a later process with
        return binding.owner is not None and not peer.descends_from(binding.owner)
