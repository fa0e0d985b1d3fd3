"""What a claimer is told of a refusal: the facts of its own, never those of an older one."""

import pytest

from ostler.pool.core.actions import Refuse
from ostler.pool.core.values import PoolCensus, RefusalKind
from ostler.pool.errors import AgentStartFailed, Phase
from ostler.pool.keys import PoolKey, TransportKey
from ostler.pool.runner.refusals import refusal_error

KEY = PoolKey(TransportKey("demo", "demo", "/work"))
CENSUS = PoolCensus(0, 0, 0, 0, 8, 0, 0, 0, 0, None)
OLD = AgentStartFailed(provider="demo", phase=Phase.SPAWN, command=("demo",), why="not installed", waited=0.1)


@pytest.mark.parametrize(
    ("kind", "phase"), [(RefusalKind.START_FAILED, Phase.SPAWN), (RefusalKind.OPEN_FAILED, Phase.SESSION_OPEN)]
)
def test_e22_a_failure_that_is_not_the_refusals_own_is_not_quoted(kind: RefusalKind, phase: Phase) -> None:
    error = refusal_error(Refuse(1, kind, 2.0, CENSUS, text="no answer to the open for 30 s"), KEY, OLD)
    assert isinstance(error, AgentStartFailed)
    assert "no answer to the open for 30 s" in str(error)
    assert "not installed" not in str(error)
    assert error.phase is phase


def test_e22_the_refusals_own_failure_is_quoted_with_all_its_facts() -> None:
    error = refusal_error(Refuse(1, RefusalKind.START_FAILED, 2.0, CENSUS, text=str(OLD)), KEY, OLD)
    assert isinstance(error, AgentStartFailed)
    assert (str(error), error.command) == (str(OLD), OLD.command)
    assert error is not OLD
