"""One prompt and everything that comes of it (interface)."""

from collections.abc import AsyncIterator
from types import TracebackType

from ostler.pool.events import Finished, TurnEvent


class Turn:
    """`async for event in turn`: events in order, the last one is `Finished`, exactly once.

    Leaving the loop early cancels the turn (at once when used as `async with turn:`, otherwise when the iterator is
    dropped). A turn is iterated by one consumer, once.
    """

    @property
    def finished(self) -> Finished | None:
        """The end, as soon as it is known (events before it may still wait to be taken)."""

    @property
    def began(self) -> bool:
        """Whether any event came: a turn that began must not be retried blindly."""

    def cancel(self) -> None:
        """Ask the agent to stop. Idempotent; the end comes as `Finished(CANCELLED)` within the cancel grace."""

    async def ended(self) -> Finished:
        """Wait for the end without taking events."""

    def __aiter__(self) -> AsyncIterator[TurnEvent]: ...
    async def __aenter__(self) -> "Turn": ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
