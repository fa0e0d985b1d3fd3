"""One live agent process that has answered its handshake (interface)."""

from collections.abc import Callable
from typing import Any

from ostler.pool.codec import AgentInfo
from ostler.pool.errors import TransportLost
from ostler.pool.keys import TransportKey
from ostler.pool.order import SeatOrder, SessionMemo
from ostler.pool.ports import Identity
from ostler.pool.provider import Provider
from ostler.pool.session import AgentSession


class Transport:
    """`transport = await Transport.start(launch, keeper=..., gates=...)`."""

    key: TransportKey
    provider: Provider
    fingerprint: str
    pid: int
    identity: Identity
    info: AgentInfo

    @classmethod
    async def start(cls, launch: Any, *, keeper: Any, gates: Any, wall: Callable[[], float]) -> "Transport":
        """Start the process and shake hands, or raise `AgentStartFailed` within `deadlines.start` with nothing left."""

    @property
    def sessions(self) -> int:
        """Open sessions."""

    @property
    def leaked(self) -> int:
        """Sessions that were forgotten because the agent cannot end them."""

    @property
    def opened(self) -> int:
        """Sessions opened or loaded so far; what `recycle_after` counts."""

    @property
    def lost(self) -> TransportLost | None:
        """How it died; None while it lives."""

    def on_lost(self, listener: Callable[[TransportLost], None]) -> None:
        """Called once when the process is gone; at once when it already is."""

    async def wait_lost(self) -> TransportLost:
        """Wait for its end."""

    async def open(self, order: SeatOrder) -> AgentSession:
        """A session with its tools attached. Raises `AgentStartFailed` (phase session_open or tools), `TransportLost`."""

    async def load(self, memo: SessionMemo, order: SeatOrder) -> AgentSession:
        """A session of an earlier process. Raises `LoadRefused` (nothing was asked), `UnknownSession`, or as `open`."""

    async def probe(self, timeout: float | None = None) -> bool:
        """True when the agent answers anything at all in time."""

    async def memory(self) -> int:
        """Bytes held by the whole process tree (PSS where readable)."""

    async def close(self, *, hard: bool = False) -> None:
        """End the process and everything below it; `hard` without waiting for politeness. Idempotent."""
