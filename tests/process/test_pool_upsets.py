"""What goes wrong at the worst moment: the pool forgets nothing, keeps nothing, and goes on."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.pool import Limits, PoolSettings
from ostler.pool.errors import AgentStartFailed
from tests.support.pools import demo_settings, open_stable, say

ONE = Limits(max_processes=1, max_processes_per_key=1)

REFUSES_SESSIONS = """
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    if frame.get("method") == "session/new":
        said = {"error": {"code": -32603, "message": "not today"}}
    else:
        said = {"result": {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}}
    print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], **said}), flush=True)
"""


async def test_w33b_a_start_that_is_stopped_in_the_same_breath_leaves_no_slot(tmp_path: Path) -> None:
    async with open_stable(tmp_path) as stable:
        key = stable.key()
        stable.pool.warm(key)
        stable.pool.warm(key, seats=0)
        stable.pool.drain(key)
        await stable.settled(lambda: stable.pool.snapshot().core.census.processes == 0)
        async with asyncio.timeout(10):
            await stable.pool.shutdown()


async def test_w27a_a_reload_in_the_same_breath_as_a_start_replaces_it(tmp_path: Path) -> None:
    async with open_stable(tmp_path, limits=ONE) as stable:
        stable.pool.warm(stable.key())
        changed = demo_settings(stable.record, env={"CHANGED": "yes"})
        stable.pool.reload(PoolSettings(providers={"demo": changed}), stable.environ)
        async with await stable.pool.lease(stable.key(), deadline=20) as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_w34a_a_refused_open_gives_its_place_back_at_once(tmp_path: Path) -> None:
    agent = replace(demo_settings(tmp_path / "record"), command=(sys.executable, "-c", REFUSES_SESSIONS), args=())
    async with open_stable(tmp_path, traits={"seats_per_process": 1}, limits=ONE) as stable:
        stable.pool.reload(replace(stable.settings, providers={"demo": agent}), stable.environ)
        for _ in range(2):
            # Well below the close timeout, after which a place that nobody gave back is taken for a leak.
            with pytest.raises(AgentStartFailed, match="not today"):
                await stable.pool.lease(stable.key(), deadline=5)
        leaked = [slot.leaked for key in stable.pool.snapshot().core.keys for slot in key.slots]
        assert leaked == [0]
