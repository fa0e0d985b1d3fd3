"""How a turn ended. A turn's outcome is set once; values only."""

from dataclasses import dataclass
from enum import StrEnum

from ostler.gateway.model.errors import Draining
from ostler.pool.events import Finished, StopReason, Usage

RETRY = 5.0
"""Seconds after which a client may try again at a gateway that restarts."""


class TurnStatus(StrEnum):
    """The status words of the Responses API."""

    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    CANCELLED = "cancelled"
    FAILED = "failed"


class StopCause(StrEnum):
    """Why a running turn was stopped, and the reason that its outcome states."""

    CLIENT = "cancelled"
    DISCONNECT = "client_disconnected"
    DRAIN = "gateway_shutdown"
    TIME = "time_limit"
    SUPERSEDED = "superseded"
    SIZE = "max_output_tokens"
    ITEMS = "max_output_items"


TOO_LARGE = (StopCause.SIZE, StopCause.ITEMS)


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The end of a turn, or of one answer of a turn."""

    status: TurnStatus
    reason: str = ""
    """Why the turn is incomplete."""
    code: str = ""
    message: str = ""
    """What went wrong, for FAILED."""
    usage: Usage | None = None
    retry_after: float = 0.0
    """Seconds after which the pool says that a new try makes sense; 0 if it names none."""


def failed(code: str, message: str, retry_after: float = 0.0) -> TurnOutcome:
    """Return the outcome of a turn that broke."""
    return TurnOutcome(TurnStatus.FAILED, code=code, message=message, retry_after=retry_after)


def stopped(stop: StopCause, usage: Usage | None = None) -> TurnOutcome:
    """Return the outcome of a turn that was stopped: CANCELLED by its client, otherwise INCOMPLETE."""
    status = TurnStatus.CANCELLED if stop is StopCause.CLIENT else TurnStatus.INCOMPLETE
    return TurnOutcome(status, reason=stop.value, usage=usage)


def unasked(stop: StopCause) -> TurnOutcome:
    """Return the outcome of a turn that was stopped before any agent was prompted. If the gateway's shutdown stopped
    it, that is a failure and the client may try again: there is no answer yet that could be incomplete."""
    return failed("shutting_down", str(Draining()), RETRY) if stop is StopCause.DRAIN else stopped(stop)


def outcome_of(end: Finished, stop: StopCause | None) -> TurnOutcome:
    """Return what the agent's end of a turn means to the client.

    A turn that was stopped because it grew too large is incomplete whatever the agent reports: what came after the stop
    was dropped.
    """
    if stop in TOO_LARGE:
        return stopped(stop, end.usage)
    match end.reason:
        case StopReason.DONE:
            return TurnOutcome(TurnStatus.COMPLETED, usage=end.usage)
        case StopReason.LIMIT:
            return TurnOutcome(TurnStatus.INCOMPLETE, reason="max_output_tokens", usage=end.usage)
        case StopReason.REFUSED:
            return TurnOutcome(TurnStatus.INCOMPLETE, reason="content_filter", usage=end.usage)
        case StopReason.CANCELLED:
            return (
                TurnOutcome(TurnStatus.INCOMPLETE, reason="agent_cancelled", usage=end.usage)
                if stop is None
                else stopped(stop, end.usage)
            )
        case StopReason.FAILED:
            return failed("agent_error", end.detail) if stop is None else stopped(stop, end.usage)
