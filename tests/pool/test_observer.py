"""Somebody else's observer may raise; the pool goes on. E22."""

import logging

import pytest

from ostler.pool.keys import TransportKey
from ostler.pool.observer import Guarded
from tests.support.counts import Counts

KEY = TransportKey("demo", "demo", "/work")


class Broken:
    """An observer that has not learned its labels."""

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None:
        raise KeyError(warmth)

    def refused(self, key: TransportKey, kind: str) -> None:
        raise KeyError(kind)

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        raise KeyError(phase)

    def opened(self, provider: str, outcome: str, seconds: float) -> None:
        raise KeyError(outcome)

    def noted(self, provider: str, what: str, cause: str) -> None:
        raise KeyError(what)

    def dropped(self, provider: str, kind: str, count: int) -> None:
        raise KeyError(kind)


def tell_all(observer: Guarded) -> None:
    observer.claimed(KEY, "parked", "none", 0.0)
    observer.refused(KEY, "saturated")
    observer.started("demo", "started", "", 1.0)
    observer.opened("demo", "opened", 1.0)
    observer.noted("demo", "slot_died", "died")
    observer.dropped("demo", "late", 2)


def test_e22_an_observer_that_raises_is_told_of_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    tell_all(Guarded(Broken()))
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 6
    assert all(record.exc_info for record in told)


def test_e22_an_observer_hears_what_it_is_told_through_its_guard() -> None:
    counts = Counts()
    tell_all(Guarded(counts))
    assert counts.claims == {("demo", "demo", "parked", "none"): 1}
    assert counts.refusals == {("demo", "demo", "saturated"): 1}
    assert counts.starts == {("demo", "started", ""): 1}
    assert counts.opens == {("demo", "opened"): 1}
    assert counts.notes == {("demo", "slot_died", "died"): 1}
    assert counts.drops == {("demo", "late"): 2}
