"""The right to a seat, and what its holder must know of it.

Rules:
- Granting and recording are one step in the core; a `Lease` is only the handle. Releasing is synchronous and
  idempotent, so no cancellation can get between the decision and the record.
- A released seat never serves another session: its session is closed in the agent and its tool ticket is revoked.
- A lease that is dropped without a release is released when it is garbage-collected, and the drop is reported.
- `move` and `lost` only inform: the holder moves at its own turn boundary, and its turn reports a death as well.
"""

import asyncio
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.transport import Transport
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.core.actions import Grant
from ostler.pool.errors import LeaseEnded, PoolError
from ostler.pool.owner_loop import ForeignLoopTurn, LoopHandover, OwnerLoop
from ostler.pool.prompt import PromptPart, TextPart
from ostler.pool.provider import Level
from ostler.pool.runner.live_seat import LiveSeat


@dataclass(frozen=True, slots=True)
class Waited:
    """What this claim waited for, in seconds; a claim that got a parked seat waited for none of it."""

    queue: float = 0.0
    spawn: float = 0.0
    session_new: float = 0.0

    @property
    def total(self) -> float:
        """The seconds from the claim to the grant."""
        return self.queue + self.spawn + self.session_new


class Lease:
    """The exclusive right to one seat until `release`. Also a context manager, sync and async."""

    def __init__(
        self,
        grant: Grant,
        seat: LiveSeat,
        *,
        session: AgentSession,
        transport: Transport,
        pooled: bool,
        warmth: str,
        waited: Waited,
        owner_loop: OwnerLoop,
        release: Callable[[LiveSeat], None],
        dropped: Callable[[LiveSeat], None],
    ) -> None:
        self._seat = seat
        self._owner_loop = owner_loop
        self._release = release
        self.id: int = grant.lease
        """Names the lease in snapshots, and as the parent of a nested claim."""
        self.key = seat.process.key.key
        self.session = session
        self.transport = transport
        """The process that serves the seat."""
        self.pid = transport.pid
        self.ticket = seat.ticket
        self.pooled = pooled
        """Whether the process may be shared; False with the pool off and after a fallback."""
        self.warmth = warmth
        self.miss = grant.miss.value
        self.waited = waited
        self.restored = seat.restored
        """Whether the agent loaded the earlier session itself, so that nothing needs to be replayed."""
        self._drop = weakref.finalize(self, dropped, seat)
        self._drop.atexit = False

    @property
    def released(self) -> bool:
        """Whether `release` was called."""
        return not self._drop.alive

    @property
    def move(self) -> str | None:
        """Why the session should move: release at the next turn boundary and lease again. None if it need not move."""
        return self._seat.move

    @property
    def lost(self) -> PoolError | None:
        """How the process under the seat died; None while it lives."""
        return self._seat.lost

    async def wait_moved(self) -> None:
        """Return when the holder should leave the seat (it is lost, or is to be moved), or when the lease was
        released.
        """
        await self._owner_loop.run(self._seat.moved.wait())

    async def prompt(
        self, prompt: str | Sequence[PromptPart], *, level: Level | None = None
    ) -> AgentTurn | ForeignLoopTurn:
        """Start a turn on the seat's session; its events may be awaited on the caller's loop.

        `level`: what the agent may do in this turn, for agents that take a level with each turn. None keeps the last
        level. The permission policy answers every request that the agent still makes. Raises `LeaseEnded` once the
        lease was released, and what `AgentSession.prompt` raises.
        """
        if self._owner_loop.here:
            return await self.begin(prompt, level)
        handover = LoopHandover()
        try:
            turn = await self._owner_loop.run(handover.begin(lambda: self.begin(prompt, level)))
        except asyncio.CancelledError:
            self._owner_loop.post(handover.give_up)
            raise
        return ForeignLoopTurn(self._owner_loop, turn)

    async def begin(self, prompt: str | Sequence[PromptPart], level: Level | None = None) -> AgentTurn:
        """As `prompt`, on the pool's own loop only."""
        if self.released:
            raise LeaseEnded(self.key, self.id)
        return await self.session.prompt([TextPart(prompt)] if isinstance(prompt, str) else prompt, level)

    def release(self) -> None:
        """Give the seat back: its session is closed, a running turn is cancelled. Idempotent."""
        if self._drop.detach() is not None:
            self._release(self._seat)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
