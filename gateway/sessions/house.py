"""What all sessions share: the pool, the store, the clock, the limits, and the owner of their tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ostler.gateway.config.settings import GatewaySettings
from ostler.gateway.ids import Ids
from ostler.gateway.sessions.mirrors import Mirrors
from ostler.gateway.sessions.permits import PermissionRules
from ostler.gateway.sessions.reports import NoTurnObserver, TurnObserver
from ostler.gateway.sessions.witness import ConversationObserver
from ostler.gateway.sessions.workshop import ToolsetFactory
from ostler.gateway.store import Store
from ostler.pool.crew import TaskOwner
from ostler.pool.pool import TransportPool
from ostler.pool.provider import Provider


@dataclass(frozen=True, slots=True)
class SessionDeps:
    """Made once, by `app.py`."""

    pool: TransportPool
    store: Store
    providers: Mapping[str, Provider]
    settings: GatewaySettings
    ids: Ids
    crew: TaskOwner
    clock: Callable[[], float]
    wall: Callable[[], float]
    observer: ConversationObserver
    mirrors: Mirrors
    permits: PermissionRules = field(default_factory=PermissionRules)
    workshop: ToolsetFactory = field(default_factory=ToolsetFactory)
    turns: TurnObserver = field(default_factory=NoTurnObserver)
