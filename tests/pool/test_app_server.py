"""The pool's contract with the other dialect: app-server processes, alone and beside those of another provider."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ostler.pool import ProviderSettings, TransportKey
from ostler.pool.events import Finished, StopReason
from tests.support import app_server
from tests.support.agent_clock import agent_turns
from tests.support.pools import PoolHarness, alive, open_pool_harness, say

CODEX = "codex-app-server"
BOOT = 2.0


@asynccontextmanager
async def both(folder: Path, *flags: str) -> AsyncIterator[PoolHarness]:
    """A pool of demo agents and of app-servers; the flags are the app-server's."""
    server = ProviderSettings(command=(sys.executable, "-S", app_server.__file__, *flags))
    async with open_pool_harness(folder) as harness:
        providers = {**harness.settings.providers, CODEX: server}
        harness.pool.reload(replace(harness.settings, providers=providers), harness.environ)
        yield harness


def codex(harness: PoolHarness, name: str = "work", model: str = "m") -> TransportKey:
    """An app-server's key whose directory exists."""
    return replace(harness.key(name, model), provider=CODEX)


async def test_e27_e01_the_same_key_is_the_same_app_server(tmp_path: Path) -> None:
    async with both(tmp_path) as harness:
        first = await harness.transport(codex(harness))
        assert await harness.transport(codex(harness)) is first
        assert harness.pids() == {first.pid}


async def test_e27_e02_a_key_that_differs_in_one_part_is_another_process(tmp_path: Path) -> None:
    async with both(tmp_path) as harness:
        keys = [codex(harness), codex(harness, "other"), codex(harness, model="second"), harness.key("work", "m")]
        pids = [(await harness.transport(key)).pid for key in keys]
        assert len(set(pids)) == 4
        assert harness.pids() == set(pids)


async def test_e27_e11_a_released_thread_never_ends_a_shared_process(tmp_path: Path) -> None:
    async with both(tmp_path) as harness:
        transport = await harness.transport(codex(harness))
        leases = [await harness.pool.lease(codex(harness)) for _ in range(3)]
        for lease in leases:
            assert await say(lease, "hello") == "hello"
            lease.release()
        async with await harness.pool.lease(codex(harness)) as fourth:
            assert await say(fourth, "recall") == ""
            assert fourth.pid == transport.pid
        assert harness.pids() == {transport.pid}


async def test_e27_e13_shutdown_leaves_nothing_not_even_what_ignores_it(tmp_path: Path) -> None:
    async with both(tmp_path, "--stubborn") as harness:
        lease = await harness.pool.lease(codex(harness))
        family = [lease.pid, int(await say(lease, "fork"))]
        assert all(map(alive, family))
        await harness.pool.shutdown()
        await harness.pool.shutdown()
        assert not any(map(alive, family))
        lease.release()


async def test_e27_e16_an_idle_app_server_that_dies_is_replaced(tmp_path: Path) -> None:
    async with both(tmp_path) as harness:
        before = await harness.transport(codex(harness))
        os.kill(before.pid, signal.SIGKILL)
        await before.wait_lost()
        async with await harness.pool.lease(codex(harness)) as lease:
            assert lease.pid != before.pid
            assert await say(lease, "still here") == "still here"
            assert harness.pids() - {before.pid} == {
                lease.pid
            }  # the dead one is on record until its process tree is reaped


async def test_e27_e17_a_death_fails_the_running_turns_once_and_nobody_else(tmp_path: Path) -> None:
    async with both(tmp_path) as harness:
        bystander = await harness.pool.lease(harness.key())
        leases = [await harness.pool.lease(codex(harness)) for _ in range(2)]
        turns = [await lease.prompt("wait") for lease in leases]
        pid = leases[0].pid
        os.kill(pid, signal.SIGKILL)
        for turn in turns:
            (end,) = [event async for event in turn if isinstance(event, Finished)]
            assert end.reason is StopReason.FAILED
            assert str(pid) in end.detail
        for lease in leases:
            await lease.wait_moved()
            lease.release()
        async with await harness.pool.lease(codex(harness)) as again:
            assert (await say(again, "recall"), again.pid == pid) == ("", False)
        assert await say(bystander, "well") == "echo: well"
        bystander.release()


async def test_e27_two_providers_are_two_processes_whose_sessions_never_mix(tmp_path: Path) -> None:
    async with both(tmp_path) as harness:
        servers = [await harness.pool.lease(codex(harness)) for _ in range(2)]
        demos = [await harness.pool.lease(harness.key()) for _ in range(2)]
        for number, lease in enumerate([*servers, *demos]):
            await say(lease, f"word{number}")
        assert [await say(lease, "recall") for lease in servers] == ["word0", "word1"]
        assert [await say(lease, "!recall") for lease in demos] == ["word2", "word3"]
        assert len({lease.pid for lease in servers}) == len({lease.pid for lease in demos}) == 1
        assert harness.pids() == {servers[0].pid, demos[0].pid}
        for lease in (*servers, *demos):
            lease.release()


async def test_e08_the_boot_is_over_when_a_lease_is_granted(tmp_path: Path) -> None:
    """On the agents' own clock, which is ours: what follows is an open and a prompt, and nothing of a start."""
    async with open_pool_harness(tmp_path, "--boot-delay", str(BOOT)) as harness:
        keys = [harness.key(f"work{number}") for number in range(4)]
        began = time.monotonic()
        transports = await asyncio.gather(*map(harness.transport, keys))
        booted = time.monotonic()
        for number, key in enumerate(keys):
            asked = time.monotonic()
            async with await harness.pool.lease(key) as lease:
                assert await say(lease, f"hello {number}") == f"echo: hello {number}"
                assert lease.pid == transports[number].pid
            turn = agent_turns(harness.record)[f"hello {number}"]
            assert began + BOOT <= turn.up <= booted <= asked < turn.prompted
            assert set(asked_of(harness.record, turn.pid, behind=turn.up)) == {"session/new", "session/prompt"}
        assert len(harness.starts()) == len(keys)


def asked_of(record: Path, pid: int, *, behind: float) -> list[str]:
    """What an agent was asked for from this moment on, without what only ends."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    mine = [line for line in lines if line["pid"] == pid and line["event"] == "in" and line["at"] > behind]
    methods = [line["frame"].get("method") for line in mine]
    return [method for method in methods if method not in (None, "session/close")]
