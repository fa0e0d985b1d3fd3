"""What the pool keeps of how its keys are made."""

import asyncio
import os
from pathlib import Path

from ostler.pool import Limits, PoolSettings
from ostler.pool.core import events
from ostler.pool.core.machine import PoolCore
from ostler.pool.errors import AgentStartFailed
from ostler.pool.keys import PoolKey, TransportKey
from ostler.pool.launch.edition import SettingsEdition
from ostler.pool.launch.settings import ProviderSettings
from ostler.pool.providers import load
from ostler.pool.runner.launches import Launches


async def test_a_key_that_is_forgotten_for_one_session_alone_stays_made_for_everybody(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    edition, core = SettingsEdition(PoolSettings(), load(), environ), PoolCore(Limits())
    launches = Launches(edition, core, lambda event: core.handle(event, 0.0) and None)
    shared = PoolKey(TransportKey("demo", "demo", str(tmp_path)))
    alone = PoolKey(shared.key, private=True)
    await launches.prepare(shared, 10.0)
    launches.register(shared)
    launches.register(alone)
    launches.forget(alone)
    assert launches.is_current(shared.key)
    launches.forget(shared)
    assert not launches.is_current(shared.key)


async def test_all_who_hear_that_a_key_cannot_be_made_hear_it_by_an_error_of_their_own(tmp_path: Path) -> None:
    missing = ProviderSettings(command=("no-such-agent",))
    settings = PoolSettings(providers={"demo": missing})
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    edition, core = SettingsEdition(settings, load(), environ), PoolCore(Limits())
    launches = Launches(edition, core, lambda event: core.handle(event, 0.0) and None)
    key = PoolKey(TransportKey("demo", "demo", str(tmp_path)))
    first, second = await asyncio.gather(*(launches.prepare(key, 10.0) for _ in range(2)), return_exceptions=True)
    assert isinstance(first, AgentStartFailed)
    assert isinstance(second, AgentStartFailed)
    assert first is not second
    assert str(first) == str(second)


async def test_of_a_key_that_cannot_be_made_nothing_is_started_for_one_session_alone_either(tmp_path: Path) -> None:
    """The launch is gone for both of them at once: whoever was still taken for made would be read on the loop."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    edition, core = SettingsEdition(PoolSettings(), load(), environ), PoolCore(Limits())
    told: list[tuple[bool, bool]] = []

    def tell(event: events.CoreEvent) -> None:
        if isinstance(event, events.StopWarming):
            told.append((launches.failed(shared) is not None, launches.failed(alone) is not None))
        core.handle(event, 0.0)

    launches = Launches(edition, core, tell)
    shared = PoolKey(TransportKey("demo", "demo", str(tmp_path)))
    alone = PoolKey(shared.key, private=True)
    await launches.prepare(shared, 10.0)
    launches.register(shared)
    launches.register(alone)
    missing = ProviderSettings(command=("no-such-agent",))
    launches.edition = edition.next(PoolSettings(providers={"demo": missing}), environ)
    await launches.renew()
    assert told == [(True, True)] * 2
