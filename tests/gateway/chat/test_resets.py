"""Reset policies as values: which moment ends a session, across days and changes of the clocks."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.gateway.chat.resets.policies import policies_of
from ostler.gateway.chat.resets.policy import Mode, Policy, latest_boundary, next_boundary
from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.settings import ResetOverride, ResetSettings
from ostler.gateway.model.records import EndReason

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata")


def at(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp()


def policy(mode: Mode, idle: float = 1800, at_hour: int = 4, zone: ZoneInfo = BERLIN) -> Policy:
    return Policy(mode, idle, at_hour, zone)


def test_a03_idle_fires_only_when_it_is_later() -> None:
    idle = policy(Mode.IDLE)
    assert idle.verdict(0, 1800) is None
    assert idle.verdict(0, 1800.5) is EndReason.IDLE


@pytest.mark.parametrize(
    ("last", "now", "over"),
    [
        ("2024-05-10 03:59", "2024-05-10 04:00", True),
        ("2024-05-10 04:00", "2024-05-11 03:59", False),
        ("2024-05-10 03:59", "2024-05-10 03:59:59", False),
        ("2024-03-30 12:00", "2024-03-31 04:00", True),
        ("2024-10-27 01:00", "2024-10-27 03:59", False),
        ("2024-10-27 01:00", "2024-10-27 04:00", True),
    ],
)
def test_a04_daily_fires_at_the_boundary_of_the_local_day(last: str, now: str, over: bool) -> None:
    assert (policy(Mode.DAILY).verdict(at(last), at(now)) is EndReason.DAILY) is over


def test_a04_an_hour_that_is_skipped_is_the_moment_of_the_change_and_one_that_comes_twice_the_first() -> None:
    change = at("2024-03-31 03:00")
    assert next_boundary(change - 1, 2, BERLIN) == change
    assert latest_boundary(change, 2, BERLIN) == change
    first, second = at("2024-10-27 02:00", fold=0), at("2024-10-27 02:00", fold=1)
    assert second - first == 3600
    assert next_boundary(first - 1, 2, BERLIN) == first
    assert latest_boundary(second, 2, BERLIN) == first


def test_a05_both_is_either_and_the_earlier_one_names_the_reason() -> None:
    both = policy(Mode.BOTH)
    assert both.verdict(at("2024-05-10 03:50"), at("2024-05-10 04:10")) is EndReason.DAILY
    assert both.verdict(at("2024-05-10 03:00"), at("2024-05-10 04:10")) is EndReason.IDLE
    assert both.verdict(at("2024-05-10 03:30"), at("2024-05-10 04:00")) is EndReason.DAILY
    assert both.verdict(at("2024-05-10 03:50"), at("2024-05-10 03:55")) is None


def test_a05_a06_nothing_configured_is_for_ever_and_a_platform_beats_it_in_both_directions() -> None:
    never = policies_of(ResetSettings(), {})
    assert never.of("http").verdict(0, 400 * 86_400) is None
    some = policies_of(ResetSettings(platforms={"telegram": ResetOverride(mode="idle", idle=600)}), {})
    assert some.of("telegram").verdict(0, 601) is EndReason.IDLE
    assert some.of("http").verdict(0, 601) is None
    others = policies_of(ResetSettings(mode="idle", idle=600, platforms={"cron": ResetOverride(mode="none")}), {})
    assert others.of("http").verdict(0, 601) is EndReason.IDLE
    assert others.of("cron").verdict(0, 601) is None


def test_a_mode_or_a_zone_that_is_none_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r"resets\.mode"):
        policies_of(ResetSettings(mode="weekly"), {})
    with pytest.raises(ConfigError, match="timezone"):
        policies_of(ResetSettings(timezone="Mars/Olympus"), {})
    assert str(policies_of(ResetSettings(), {"TZ": ":Europe/Berlin"}).default.zone) == "Europe/Berlin"


SECONDS = st.integers(min_value=1_500_000_000, max_value=1_900_000_000)


@given(last=SECONDS, later=st.integers(0, 4 * 86_400), hour=st.integers(0, 23), zone=st.sampled_from(ZONES))
def test_the_edge_and_the_verdict_agree(last: int, later: int, hour: int, zone: str) -> None:
    now = last + later
    for mode in Mode:
        one = policy(mode, at_hour=hour, zone=ZoneInfo(zone))
        edge = one.over_before(now)
        assert (one.verdict(last, now) is not None) == (edge is not None and last < edge)


@given(moment=SECONDS, hour=st.integers(0, 23), zone=st.sampled_from(ZONES))
def test_there_is_one_boundary_in_each_day(moment: int, hour: int, zone: str) -> None:
    where = ZoneInfo(zone)
    first = next_boundary(moment, hour, where)
    second = next_boundary(first, hour, where)
    days = [datetime.fromtimestamp(each, where).date() for each in (first, second)]
    assert days[1] - days[0] == timedelta(days=1)
    assert latest_boundary(second - 1, hour, where) == first
    assert latest_boundary(first, hour, where) == first
    assert moment < first <= moment + 25 * 3600
    assert datetime.fromtimestamp(first, UTC).second == 0
