"""A key is led elsewhere in one step, by one of those who want to; what is over is found, once."""

import asyncio

import pytest

from ostler.gateway.model.errors import NoSuchSession, RouteMoved
from ostler.gateway.model.records import EndReason, NewSession, RouteSwitch, SessionChange, SessionRecord
from ostler.gateway.model.store import Store
from tests.support.stores import Place, texts, with_turns


def switch(leaving: str | None, target: NewSession | str, reason: str | None = None) -> RouteSwitch:
    return RouteSwitch("/k", leaving, target, reason, platform="http")


async def ended(store: Store, session_id: str) -> str | None:
    session = await store.get_session(session_id)
    assert session is not None
    return session.end_reason


async def test_a01_a11_a_switch_ends_makes_and_leads_in_one_step_and_survives_a_restart(place: Place) -> None:
    async with place.opened() as store:
        await store.switch_route(switch(None, NewSession("sess_p", "/k", "http")))
        made = await store.switch_route(switch("sess_p", NewSession("sess_q", "/k", "http"), EndReason.RESET))
        assert (made.id, made.live) == ("sess_q", True)
    async with place.opened() as store:
        route = await store.route("/k")
        assert route is not None
        assert (route.session_id, route.platform) == ("sess_q", "http")
        assert await ended(store, "sess_p") == "session_reset"


async def test_ra1_whoever_is_wrong_about_where_the_key_leads_changes_nothing(store: Store) -> None:
    await store.switch_route(switch(None, NewSession("sess_p")))
    for believed in (None, "sess_other"):
        with pytest.raises(RouteMoved) as moved:
            await store.switch_route(switch(believed, NewSession("sess_q"), EndReason.RESET))
        assert moved.value.session_id == "sess_p"
    assert await store.get_session("sess_q") is None
    assert await ended(store, "sess_p") is None


async def test_ra2_a_session_is_ended_by_one_of_those_who_end_it(store: Store) -> None:
    await store.switch_route(switch(None, NewSession("sess_p")))
    await store.end_session("sess_p", EndReason.IDLE)
    with pytest.raises(RouteMoved):
        await store.switch_route(switch("sess_p", NewSession("sess_q"), EndReason.RESET))
    assert await store.get_session("sess_q") is None
    await store.switch_route(switch("sess_p", NewSession("sess_q")))
    assert await ended(store, "sess_p") == "idle"


async def test_w22_of_many_who_begin_at_once_one_does(store: Store) -> None:
    tries = (store.switch_route(switch(None, NewSession(f"sess_{number}"))) for number in range(8))
    done = await asyncio.gather(*tries, return_exceptions=True)
    (won,) = [each for each in done if isinstance(each, SessionRecord)]
    assert sum(isinstance(each, RouteMoved) for each in done) == 7
    route = await store.route("/k")
    assert route is not None
    assert route.session_id == won.id
    assert len(await store.list_sessions()) == 1


async def test_h10_h12_a_switch_to_a_session_that_has_ended_lets_it_live(store: Store) -> None:
    await store.switch_route(switch(None, NewSession("sess_p")))
    await store.create_session(NewSession("sess_t"))
    await store.end_session("sess_t", EndReason.SWITCH)
    back = await store.switch_route(switch("sess_p", "sess_t", EndReason.SWITCH))
    assert (back.live, await ended(store, "sess_p")) == (True, "session_switch")
    with pytest.raises(NoSuchSession):
        await store.switch_route(switch("sess_t", "sess_unknown", EndReason.SWITCH))
    assert await ended(store, "sess_t") is None


async def test_b18_what_is_over_is_found_by_platform_until_it_is_finalised(place: Place) -> None:
    async with place.opened() as store:
        for number, platform in enumerate(("http", "http", "telegram", "cron")):
            await store.create_session(NewSession(f"sess_{number}", f"/{number}", platform))
            place.clock.now += 10
        await store.create_session(NewSession("sess_api", platform="api"))
        edge = place.clock.now - 15
        found = await store.expiring_sessions(edge, besides=("telegram",))
        assert [session.id for session in found] == ["sess_0", "sess_1"]
        assert [session.id for session in await store.expiring_sessions(edge, only="telegram")] == ["sess_2"]
        await store.end_session("sess_0", EndReason.RESET)
        await store.end_session("sess_1", EndReason.IDLE)
        assert [session.id for session in await store.expiring_sessions(edge)] == ["sess_1", "sess_2"]
        assert [session.id for session in await store.expiring_sessions(edge, limit=1)] == ["sess_1"]
        await store.update_session("sess_1", SessionChange(expiry_finalized=True))
    async with place.opened() as store:
        assert [session.id for session in await store.expiring_sessions(edge)] == ["sess_2"]


async def test_b21_a_switch_may_finalise_what_it_ends(store: Store) -> None:
    await store.switch_route(switch(None, NewSession("sess_p")))
    change = RouteSwitch("/k", "sess_p", NewSession("sess_q"), EndReason.IDLE, finalizes=True)
    assert not (await store.switch_route(change)).expiry_finalized
    left = await store.get_session("sess_p")
    assert left is not None
    assert (left.end_reason, left.expiry_finalized) == ("idle", True)


async def test_h06_a_history_can_be_read_from_a_place_on(store: Store) -> None:
    ids = await with_turns(store, "sess_p", 3)
    assert texts(await store.history("sess_p", after=ids[3])) == ["u3", "a3"]
    assert texts(await store.history("sess_p", after=ids[1], last=1)) == ["a3"]
    assert await store.history("sess_p", after=ids[-1]) == []
