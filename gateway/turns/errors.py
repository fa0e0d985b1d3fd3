"""What a session can say no with. Raised before anything was stored or started."""

from ostler.gateway.model.errors import RequestRefused
from ostler.pool.errors import PoolError


class SessionQueueFull(RequestRefused):
    """So many turns wait for this session that one more would only wait as well."""

    def __init__(self, session_id: str, waiting: int) -> None:
        super().__init__(f"{waiting} turns are waiting for session {session_id} already; try again in a moment")
        self.session_id = session_id
        self.waiting = waiting


class Draining(RequestRefused):
    """The gateway is about to stop."""

    def __init__(self) -> None:
        super().__init__("the gateway is shutting down and takes no new work; try again in a few seconds")


class OutputsMissing(RequestRefused):
    """A client answers some of the calls it was handed, and not the others."""

    def __init__(self, missing: list[str]) -> None:
        super().__init__(f"no tool output found for function call {', '.join(missing)}; send all outputs together")
        self.missing = missing


class TurnRunning(RequestRefused):
    """A turn runs or waits, so nothing else may touch the transcript."""

    def __init__(self, session_id: str) -> None:
        super().__init__("a turn is running: wait for it, or end it with /stop, then try again")
        self.session_id = session_id


class MovedOn(RequestRefused):
    """What is to be asked again is no longer the last question."""

    def __init__(self, session_id: str) -> None:
        super().__init__("the conversation went on meanwhile; nothing was changed")
        self.session_id = session_id


class SeatLost(PoolError):
    """An agent ended, or was ended, after the session had taken its seat and before it was asked anything."""
