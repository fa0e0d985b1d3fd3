"""What a provider's declaration becomes in the words of the core."""

from dataclasses import replace

from ostler.pool.keys import TransportKey
from ostler.pool.launch.builder import launch
from ostler.pool.launch.edition import traits_of
from ostler.pool.launch.settings import ProviderSettings
from ostler.pool.provider import CloseVerb, Provider
from ostler.pool.providers import load

DEMO = load()["demo"]


def traits(provider: Provider):  # type: ignore[no-untyped-def] # Traits, as the core has them
    key = TransportKey(provider.name, "demo", "/")
    return traits_of(launch(provider, ProviderSettings(), key, {"HOME": "/", "PATH": "/usr/bin"}), private=False)


def test_m09_where_nothing_ends_a_session_the_dead_ones_are_counted_and_the_living_are_not() -> None:
    found = traits(replace(DEMO, close=CloseVerb.NONE, recycle_after=20))
    assert (found.recycle_after_seats, found.recycle_after_leaks) == (None, 20)


def test_where_sessions_end_the_served_ones_are_counted() -> None:
    found = traits(replace(DEMO, close=CloseVerb.SESSION_CLOSE, recycle_after=20))
    assert (found.recycle_after_seats, found.recycle_after_leaks) == (20, None)


def test_the_refill_pause_is_the_providers() -> None:
    assert traits(replace(DEMO, refill_pause=0.5)).refill_pause == 0.5


def test_the_core_hears_of_first_starts_that_are_made_alone() -> None:
    assert not traits(DEMO).first_start_alone
    assert traits(replace(DEMO, first_start_alone=True)).first_start_alone
