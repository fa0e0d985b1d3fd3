"""What all sessions share: the pool, the store, the clocks, the limits, and the owner of their tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ostler.gateway.config.settings import GatewaySettings
from ostler.gateway.model.ids import Ids
from ostler.gateway.model.observers import ConversationObserver
from ostler.gateway.model.permits import PermissionRules
from ostler.gateway.model.store import Store
from ostler.gateway.turns.mirrors import Mirrors
from ostler.gateway.turns.reports import NoTurnObserver, TurnObserver
from ostler.gateway.turns.toolset import ToolsetFactory
from ostler.pool.pool import TransportPool
from ostler.pool.provider import Provider
from ostler.pool.tasks import TaskOwner


@dataclass(frozen=True, slots=True)
class SessionDeps:
    """The shared parts of all sessions. The composition root builds it once."""

    pool: TransportPool
    store: Store
    providers: Mapping[str, Provider]
    settings: GatewaySettings
    ids: Ids
    tasks: TaskOwner
    clock: Callable[[], float]
    wall: Callable[[], float]
    observer: ConversationObserver
    mirrors: Mirrors
    permits: PermissionRules = field(default_factory=PermissionRules)
    toolsets: ToolsetFactory = field(default_factory=ToolsetFactory)
    turns: TurnObserver = field(default_factory=NoTurnObserver)
