"""One agent-side session on a transport (interface)."""

from collections.abc import Sequence

from ostler.pool.events import TurnEvent
from ostler.pool.order import SessionMemo
from ostler.pool.prompt import PromptPart
from ostler.pool.turn import Turn


class AgentSession:
    """Opened by `Transport.open` or `Transport.load`; one turn at a time."""

    id: str
    cwd: str

    @property
    def sealed(self) -> str | None:
        """Why no prompt may be sent any more; None while the session is good."""

    @property
    def turn(self) -> Turn | None:
        """The running turn."""

    @property
    def memo(self) -> SessionMemo:
        """What to remember so that it can be loaded elsewhere."""

    @property
    def replay(self) -> Sequence[TurnEvent]:
        """What the agent told of the conversation while it loaded (UserText, Text, ...); empty for a new session."""

    async def prompt(self, parts: Sequence[PromptPart]) -> Turn:
        """Send a prompt. Raises `SessionBusy`, `SessionEnded`, `PromptTooLarge`, `PromptUnsupported` (nothing was
        sent) or `TransportLost`. What goes wrong later is the turn's `Finished`."""

    async def cancel(self) -> None:
        """Cancel the running turn, if any, and wait for its end (at most the cancel grace)."""

    async def close(self) -> bool:
        """End the session. True: the agent really ended it. False: it is forgotten and counted as leaked. Never
        raises; idempotent."""
