"""The settings of a random world: tight caps, short times, every kind of provider."""

import random
from types import ModuleType
from typing import Any


def make_limits(rng: random.Random, lib: ModuleType) -> Any:
    return lib.Limits(
        max_processes=rng.choice((1, 2, 3, 4, 5)),
        max_processes_per_key=rng.choice((1, 2, 3)),
        max_starting=rng.choice((1, 2, 3)),
        max_starting_per_provider=rng.choice((1, 2)),
        starts_per_second=rng.choice((0.5, 2.0, 10.0)),
        start_burst=rng.choice((1, 3)),
        max_queue=rng.choice((6, 15)),
        start_timeout=20.0,
        open_timeout=12.0,
        slow_open_after=rng.choice((5.0, 20.0)),
        close_timeout=4.0,
        stop_timeout=3.0,
        drain_timeout=15.0,
        idle_after=12.0,
        forget_after=90.0,
        max_idle_keys=2,
        max_age=rng.choice((60.0, 4000.0)),
        memory_budget=rng.choice((None, 350, 600)),
        memory_ceiling=rng.choice((None, 150)),
        slow_open_spacing=rng.choice((1.0, 30.0)),
        give_way=rng.choice((0.5, 3.0, 9.0)),
        memory_recycle_spacing=10.0,
        probe_every=rng.choice((None, 5.0)),
        breaker_after=3,
        backoff_base=0.5,
        backoff_cap=8.0,
        breaker_cooldown=6.0,
        reserve=lib.ReserveRule(most=3, rate_half_life=20.0, burst_half_life=200.0, keep_seconds=30.0),
    )


def make_spec(rng: random.Random, lib: ModuleType, key: int) -> Any:
    sharing = rng.choice(
        (lib.CoreSharing.SESSIONS,) * 3 + (lib.CoreSharing.PER_CWD, lib.CoreSharing.NONE, lib.CoreSharing.NONE)
    )
    roams = rng.random() < 0.4
    traits = lib.Traits(
        sharing=sharing,
        seats_per_process=rng.choice((1, 2, 4)) if sharing is lib.CoreSharing.SESSIONS else 1,
        recycle_after_seats=rng.choice((None, 10)),
        recycle_after_leaks=rng.choice((None, 3)),
        can_close=rng.random() < 0.7,
        open_group=rng.choice((None, "home")),
        parallel_opens=2,
        cwd_per_session=roams,
        start_seconds=1.0,
        start_bytes=100,
        seat_bytes=5,
    )
    provider = "roaming" if roams else f"p{key % 2}"
    return lib.KeySpec(
        provider=provider,
        fingerprint="f0" if roams else f"f{key}.0",
        traits=traits,
        spares=rng.choice((0, 1)) if roams else 0,
        max_processes=rng.choice((None, None, 1, 2)),
    )
