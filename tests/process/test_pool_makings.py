"""What the pool keeps of how its keys are made."""

import os
from pathlib import Path

from ostler.pool import Limits, PoolSettings
from ostler.pool.catalogue import Catalogue
from ostler.pool.core.machine import PoolCore
from ostler.pool.keys import TransportKey
from ostler.pool.makings import Makings
from ostler.pool.providers import load
from ostler.pool.roster import PoolKey


async def test_a_key_that_is_forgotten_for_one_session_alone_stays_made_for_everybody(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    catalogue, core = Catalogue(PoolSettings(), load(), environ), PoolCore(Limits())
    makings = Makings(catalogue, core, lambda event: core.handle(event, 0.0) and None)
    shared = PoolKey(TransportKey("demo", "demo", str(tmp_path)))
    alone = PoolKey(shared.key, private=True)
    await makings.prepare(shared, 10.0)
    makings.register(shared)
    makings.register(alone)
    makings.forget(alone)
    assert catalogue.made(shared.key)
    makings.forget(shared)
    assert not catalogue.made(shared.key)
