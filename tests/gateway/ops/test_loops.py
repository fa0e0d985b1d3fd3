"""Every long-lived loop of a gateway outlives what a round of it raises, and `/readyz` knows one that does not."""

import asyncio
import errno
import os
import socket
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.gateway.chat.resets.expiry import Expiry
from ostler.gateway.config.data_folder import DATABASE
from ostler.gateway.memory.provider import MemoryProvider
from ostler.gateway.ops.gauges.lag import LoopLag
from ostler.metrics.loops import Loops
from tests.support.memory import remembering
from tests.support.serve_command import command
from tests.support.served import Served
from tests.support.waiting import eventually, within
from tools.faults.disk import DiskFault


def is_ready(http: httpx.Client) -> bool:
    return http.get("/readyz").status_code == 200


def said(http: httpx.Client, text: str) -> int:
    return http.post("/v1/sessions/k/messages", json={"text": text}).status_code


FAILING = "the thread that writes the store fails again and again; see the log"


async def test_n17_n48_a_disk_that_fails_for_a_while_makes_the_gateway_not_ready_for_that_while(tmp_path: Path) -> None:
    disk = DiskFault(tmp_path, tmp_path / "data" / DATABASE)
    if not disk.works:
        pytest.skip("needs a C compiler")
    with command(tmp_path, whole=True, **disk.environ) as running, running.http() as http:
        assert await asyncio.to_thread(said, http, "before") == 200
        disk.set(errno.EIO)
        assert await asyncio.to_thread(said, http, "never") >= 500
        await eventually(lambda: not is_ready(http), "the store cannot be written to, and readiness is to say so")
        await eventually(lambda: FAILING in http.get("/readyz").json().get("problems", ()), "the writer is named")
        assert http.get("/readyz").status_code == 503
        assert "\nostler_ready 0" in http.get("/metrics").text
        assert http.get("/healthz").status_code == 200
        disk.set(0)
        await eventually(lambda: is_ready(http), "nobody writes, and it is to find out by itself")
        assert await asyncio.to_thread(said, http, "after") == 200


async def test_n17_a_loop_that_has_ended_makes_the_gateway_not_ready(served: Served) -> None:
    async def die() -> None:
        with served.gateway.readiness.loops.add("the sweep").running():
            raise OSError("outside of every round")

    assert (await served.http.get("/readyz")).status_code == 200
    with suppress(OSError):
        await die()
    refusal = await served.http.get("/readyz")
    assert (refusal.status_code, refusal.json()["status"]) == (
        503,
        "the sweep has ended; see the log, then restart the gateway",
    )


async def test_n17_every_room_of_a_gateway_has_its_loops_watched(served: Served) -> None:
    names = " ".join(served.gateway.readiness.loops.names())
    for one in ("writes the store", "reader 1", "agents' memory", "files", "kept warm", "bridge", "are over", "lag"):
        assert one in names, one


async def test_n17_the_bridge_takes_relays_in_again_after_an_error_that_it_does_not_know(tmp_path: Path) -> None:
    """What does not listen answers each accept with EINVAL."""
    loops = Loops()
    bridge = Bridge(BridgeSettings(data_directory=tmp_path), loops=loops)
    await bridge.start()
    place = bridge._place
    assert place is not None
    with place.listener.dup() as real, socket.socket(socket.AF_UNIX) as deaf:
        os.dup2(deaf.fileno(), place.listener.fileno(), inheritable=False)
        await eventually(loops.broken, "each accept fails")
        os.dup2(real.fileno(), place.listener.fileno(), inheritable=False)
        with socket.socket(socket.AF_UNIX) as relay:
            relay.connect(bridge.socket_path)
            await eventually(lambda: not loops.broken(), "it listens again")
    await bridge.stop()
    assert loops.names() == []


async def test_n17_the_search_for_sessions_that_are_over_outlives_an_error_of_any_kind() -> None:
    passes: asyncio.Queue[int] = asyncio.Queue()

    class Store:
        async def expire_parked(self, _now: float) -> list[Any]:
            passes.put_nowait(0)
            raise KeyError("nobody foresaw this")

    deps = SimpleNamespace(store=Store(), wall=lambda: 0.0, witness=None)
    loops = Loops()
    expiry = Expiry(SimpleNamespace(deps=deps, find=lambda _: None), SimpleNamespace(), 0.0, loops)  # type: ignore[arg-type]  # as much of it as a pass needs
    running = asyncio.ensure_future(expiry.run())
    async with within(300, "it is to go on"):
        for _ in range(3):
            await passes.get()
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


async def test_n17_the_event_loops_lag_is_measured_on_after_an_error() -> None:
    looks: asyncio.Queue[float] = asyncio.Queue()

    def broken(lag: float) -> None:
        looks.put_nowait(lag)
        raise ValueError("no bucket for it")

    lag = LoopLag(broken, 0.001)
    lag.start()
    async with within(300, "it is to go on"):
        for _ in range(3):
            await looks.get()
    lag.stop()


async def test_n17_a_provider_of_memory_that_cancels_itself_is_told_what_comes_next(tmp_path: Path) -> None:
    told = []

    class Cancelling(MemoryProvider):
        def sync_turn(self, question: str, answer: str, *, session_id: str, user: str) -> None:
            told.append(question)
            raise asyncio.CancelledError

    async with remembering(tmp_path, Cancelling()) as running:
        running.memories.turn_ended("p", "one", "a")
        running.memories.turn_ended("p", "two", "a")
    assert told == ["one", "two"]
