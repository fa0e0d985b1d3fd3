"""Contract: through a whole pool, a key is one process, a death is one new start, and two providers never mix."""

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.pool import PoolSettings, TransportKey, TransportPool, open_pool
from ostler.pool.provider import Provider, Sharing
from tests.contracts.built_in import BUILT_IN
from tests.support.pools import say, transport_of
from tests.support.provider_harness import DEADLINES, PATIENCE
from tests.support.waiting import soon
from tests.support.witness import gone, tree
from tools.agents.recipes import Recipe


def other_than(provider: Provider) -> str:
    """A provider that needs no install, beside the one under test."""
    return next(name for name in BUILT_IN if name != provider.name)


@pytest.fixture
async def pool(provider: Provider, recipe: Recipe, tmp_path: Path) -> AsyncIterator[TransportPool]:
    """With the provider under test and another one."""
    beside = other_than(provider)
    recipes = {provider.name: recipe, beside: BUILT_IN[beside](tmp_path)}
    settings = {name: replace(each.settings, deadlines=DEADLINES) for name, each in recipes.items()}
    async with open_pool(PoolSettings(providers=settings), runtime_dir=tmp_path / "run") as made:
        yield made


def key_of(name: str, model: str, folder: Path) -> TransportKey:
    """A key whose directory exists."""
    folder.mkdir(exist_ok=True)
    return TransportKey(name, model, str(folder))


async def test_e27_e01_e02_e16_a_key_is_one_process_and_a_death_one_new_start(
    pool: TransportPool, provider: Provider, recipe: Recipe, tmp_path: Path
) -> None:
    if provider.sharing is not Sharing.SESSIONS:
        pytest.skip("declared as not shared: an idle process of it may be replaced at any time")
    key, other = (key_of(provider.name, recipe.model, tmp_path / name) for name in ("work", "other"))
    first = await soon(transport_of(pool, key), "a process", PATIENCE)
    assert await soon(transport_of(pool, key), "the same process", PATIENCE) is first
    assert (await soon(transport_of(pool, other), "another process", PATIENCE)).pid != first.pid
    os.kill(first.pid, signal.SIGKILL)
    await soon(first.wait_lost(), "the loss")
    async with await soon(pool.lease(key), "a new process", PATIENCE) as lease:
        assert lease.pid != first.pid
        assert (await soon(say(lease, "well"), "an answer", PATIENCE)).strip() == "echo: well"


async def test_e27_e11_e13_two_providers_never_mix_and_nothing_of_either_is_left(
    pool: TransportPool, provider: Provider, recipe: Recipe, tmp_path: Path
) -> None:
    ours = key_of(provider.name, recipe.model, tmp_path / "work")
    theirs = key_of(other_than(provider), "demo", tmp_path / "work")
    leases = [await soon(pool.lease(key), "a seat", PATIENCE) for key in (ours, theirs, ours)]
    for number, lease in enumerate(leases):
        await soon(say(lease, f"word-{number}"), "an answer", PATIENCE)
    for number, lease in enumerate(leases):
        recalled = await soon(say(lease, "!recall"), "an answer", PATIENCE)
        assert [word in recalled for word in ("word-0", "word-1", "word-2")] == [n == number for n in range(3)]
    assert leases[0].pid != leases[1].pid
    assert (leases[0].pid == leases[2].pid) is (provider.sharing is Sharing.SESSIONS)
    leases[2].release()
    assert "word-0" in await soon(say(leases[0], "!recall"), "an answer", PATIENCE)
    seen = tree(leases[0].pid) | tree(leases[1].pid)
    await soon(pool.shutdown(), "the shutdown", PATIENCE)
    await gone(seen)
    for lease in leases[:2]:
        lease.release()
