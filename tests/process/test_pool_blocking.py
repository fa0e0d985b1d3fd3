"""The pool for threads: same guarantees, no loop in sight."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ostler.pool import PoolClosed, PoolSettings, TransportKey, UnknownProvider, open_pool
from ostler.pool.blocking import BlockingPool
from ostler.pool.events import Finished, Reason, Text
from tests.support.pools import alive, demo_settings


@contextmanager
def threads_pool(folder: Path, *flags: str) -> Iterator[BlockingPool]:
    settings = PoolSettings(providers={"demo": demo_settings(folder / "record.jsonl", *flags)})
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    with BlockingPool(partial(open_pool, settings, runtime_dir=folder / "run", environ=environ)) as pool:
        yield pool


def test_e06_eight_threads_miss_one_key_and_start_one_process(tmp_path: Path) -> None:
    key = TransportKey("demo", "demo", str(tmp_path))
    with threads_pool(tmp_path, "--boot-delay", "0.3") as pool:
        found: list[object] = []
        threads = [threading.Thread(target=lambda: found.append(pool.get(key))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len({id(one) for one in found}) == 1
        assert len(pool.snapshot().processes) == 1


def test_a_thread_streams_a_turn(tmp_path: Path) -> None:
    with threads_pool(tmp_path) as pool, pool.lease(TransportKey("demo", "demo", str(tmp_path))) as lease:
        events = list(lease.prompt("!stream 5"))
        assert "".join(event.text for event in events if isinstance(event, Text)) == "t0 t1 t2 t3 t4 "
        assert isinstance(events[-1], Finished)


def test_leaving_the_loop_early_cancels_the_turn(tmp_path: Path) -> None:
    with threads_pool(tmp_path) as pool, pool.lease(TransportKey("demo", "demo", str(tmp_path))) as lease:
        turn = lease.prompt("first\n!sleep 30")
        for event in turn:
            assert isinstance(event, Text)
            break
        end = turn.wait()
        assert end.reason is Reason.CANCELLED
        assert [event.text for event in lease.prompt("again") if isinstance(event, Text)] == ["echo: again"]


def test_errors_cross_as_they_are_and_a_closed_pool_says_so(tmp_path: Path) -> None:
    with threads_pool(tmp_path) as pool:
        with pytest.raises(UnknownProvider):
            pool.get(TransportKey("nobody", "m", str(tmp_path)))
        pid = pool.get(TransportKey("demo", "demo", str(tmp_path))).pid
    assert not alive(pid)
    with pytest.raises(PoolClosed):
        pool.get(TransportKey("demo", "demo", str(tmp_path)))
    pool.shutdown()


async def test_a_blocking_call_on_the_pools_own_loop_is_refused(tmp_path: Path) -> None:
    def misuse() -> None:
        with threads_pool(tmp_path) as pool:
            inner = pool.get(TransportKey("demo", "demo", str(tmp_path)))

            async def on_the_pools_loop() -> None:
                with pytest.raises(RuntimeError, match="own loop"):
                    pool.get(inner.key)

            pool.run(on_the_pools_loop())

    await asyncio.to_thread(misuse)
