"""What all sessions share: the pool, the store, the clock, the limits, and the owner of their tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ostler.gateway.config.settings import GatewaySettings
from ostler.gateway.ids import Ids
from ostler.gateway.sessions.mirrors import Mirrors
from ostler.gateway.sessions.permits import Permits
from ostler.gateway.sessions.reports import NoTurnObserver, TurnObserver
from ostler.gateway.sessions.witness import Witness
from ostler.gateway.sessions.workshop import Workshop
from ostler.gateway.store import Store
from ostler.pool.crew import Crew
from ostler.pool.pool import TransportPool
from ostler.pool.provider import Provider


@dataclass(frozen=True, slots=True)
class House:
    """Made once, by `app.py`."""

    pool: TransportPool
    store: Store
    providers: Mapping[str, Provider]
    settings: GatewaySettings
    ids: Ids
    crew: Crew
    clock: Callable[[], float]
    wall: Callable[[], float]
    witness: Witness
    mirrors: Mirrors
    permits: Permits = field(default_factory=Permits)
    workshop: Workshop = field(default_factory=Workshop)
    turns: TurnObserver = field(default_factory=NoTurnObserver)
