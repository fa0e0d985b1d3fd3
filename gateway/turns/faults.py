"""What an error of the pool or the store means for a turn: a code for the client's program, and a text for its user."""

from ostler.gateway.model.errors import CallsAnswered, ConversationMoved, GatewayError, MovedOn
from ostler.gateway.model.outcome import TurnOutcome, failed
from ostler.pool.errors import (
    AgentMissing,
    AgentStartFailed,
    BadDirectory,
    BreakerOpen,
    NestedClaimRefused,
    PoolClosed,
    PoolError,
    PoolPaused,
    PoolSaturated,
    PromptTooLarge,
    PromptUnsupported,
    UnknownProvider,
)
from ostler.pool.launch.settings import BadSetting

CODES: tuple[tuple[type[PoolError], str], ...] = (
    (PoolSaturated, "pool_saturated"),
    (NestedClaimRefused, "pool_saturated"),
    (BreakerOpen, "agent_unavailable"),
    (PoolPaused, "agent_unavailable"),
    (PoolClosed, "agent_unavailable"),
    (AgentMissing, "agent_unavailable"),
    (AgentStartFailed, "agent_unavailable"),
    (BadSetting, "agent_unavailable"),
    (PromptTooLarge, "context_length_exceeded"),
    (PromptUnsupported, "unsupported_content"),
    (UnknownProvider, "model_not_found"),
    (BadDirectory, "invalid_cwd"),
)


def fault(error: PoolError | GatewayError) -> TurnOutcome:
    """Return the outcome of a turn that ended with this error."""
    if isinstance(error, MovedOn | ConversationMoved):
        return failed("conversation_moved", str(error))
    if isinstance(error, CallsAnswered):
        return failed("call_answered", str(error))
    if isinstance(error, GatewayError):
        return failed("storage_error", str(error))
    code = next((code for kind, code in CODES if isinstance(error, kind)), "agent_error")
    return failed(code, str(error), error.retry_after if isinstance(error, PoolSaturated | BreakerOpen) else 0.0)
