"""An agent that has nothing to log in with: told once at its first start, and in the error of a start that fails."""

import logging
from pathlib import Path

import pytest

from ostler.pool.errors import AgentStartFailed
from tests.support.pools import open_pool_harness

KEYED = {"credentials": ("DEMO_KEY", "OTHER_KEY"), "credential_files": (".demo/login",)}
LACKS = "no key: none of DEMO_KEY, OTHER_KEY is set, and HOME holds no login (.demo/login)"


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings about it."""
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING and LACKS in each.message]


async def test_a_missing_key_is_told_once_when_its_agent_is_first_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_pool_harness(tmp_path, traits=KEYED) as harness:
        for name in ("a", "b"):
            await harness.transport(harness.key(name))
    assert len(harness.starts()) == 2
    advice = "set DEMO_KEY or OTHER_KEY in the gateway's environment, or log in with the agent's own command"
    assert told(caplog) == [f"demo: {LACKS}; {advice}"]


async def test_a_start_that_fails_says_that_there_is_no_key(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--refuse-initialize", traits=KEYED, fallback=False) as harness:
        with pytest.raises(AgentStartFailed) as failed:
            await harness.pool.lease(harness.key())
    assert failed.value.why.endswith(LACKS)


async def test_a_login_in_home_is_enough(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / ".demo").mkdir()
    (tmp_path / ".demo" / "login").touch()
    async with open_pool_harness(tmp_path, traits=KEYED) as harness:
        await harness.transport()
    assert told(caplog) == []
