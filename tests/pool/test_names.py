"""A provider goes by what people call it, in every call and setting; the pool's own keys have its name."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.pool import PoolSettings, ProviderSettings, TransportKey, TransportPool, UnknownProvider, WarmKey, open_pool
from ostler.pool.providers import load
from tests.support.pools import say
from tests.support.waiting import eventually


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[TransportPool]:
    """Its demo agent is called `dm` for short, in its settings too."""
    providers = {**load(), "demo": replace(load()["demo"], short="dm")}
    settings = PoolSettings(
        providers={"dm": ProviderSettings(args=("--record", str(tmp_path / "record.jsonl")))},
        warm=(WarmKey(TransportKey("dm", "kept", str(tmp_path))),),
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    async with open_pool(settings, runtime_dir=tmp_path / "run", environ=environ, providers=providers) as opened:
        yield opened


async def test_a_short_name_leads_to_the_same_process_and_is_in_no_key(pool: TransportPool, tmp_path: Path) -> None:
    short, long = (TransportKey(name, "kept", str(tmp_path)) for name in ("dm", "demo"))
    async with await pool.lease(short) as one, await pool.lease(long) as other:
        assert one.pid == other.pid
        assert await say(one, "hello") == "echo: hello"
    pool.pause(short)
    pool.resume(long)
    assert pool.why(short).key == pool.why(long).key == str(long)
    await eventually(lambda: pool.snapshot().core.census.parked, "the key that is kept warm has its seat")
    assert (tmp_path / "record.jsonl").exists(), "settings under the short name hold"
    keys = {str(view.key) for view in pool.snapshot().core.keys}
    assert keys == {f"demo/kept in {tmp_path}"}


async def test_a_name_that_nobody_has_is_told_what_there_is(pool: TransportPool, tmp_path: Path) -> None:
    with pytest.raises(UnknownProvider, match=r"'nope'; known providers: .*demo, dm, gemini, gemini-acp"):
        await pool.lease(TransportKey("nope", "m", str(tmp_path)))
