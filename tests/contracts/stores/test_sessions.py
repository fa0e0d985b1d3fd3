"""Sessions, titles, routes: made once, ended once, found again."""

import asyncio
from dataclasses import replace

import pytest

from ostler.gateway.model.errors import BadSessionId, BadTitle, NoSuchSession, TitleTaken
from ostler.gateway.model.records import EndReason, NewSession, SessionChange, SessionOrigin, SessionQuery, TurnCommit
from ostler.gateway.model.store import Store
from tests.support.stores import Place, lead, response, said, texts, with_turns


async def test_h01_a_second_create_keeps_what_is_set_and_fills_what_is_not(store: Store) -> None:
    await store.create_session(NewSession("sess_p", platform="web", model="first", metadata={"a": 1}))
    again = await store.create_session(NewSession("sess_p", platform="telegram", cwd="/srv", metadata={"b": 2}))
    assert (again.platform, again.model, again.cwd, again.metadata) == ("web", "first", "/srv", {"a": 1})
    assert len(await store.list_sessions()) == 1


async def test_h01_twenty_creates_at_once_make_one_row(store: Store) -> None:
    made = await asyncio.gather(*(store.create_session(NewSession("sess_p", model=f"m{n}")) for n in range(20)))
    assert len({session.model for session in made}) == 1
    assert len(await store.list_sessions()) == 1


async def test_h02_the_row_is_there_before_the_first_turn_and_counts_its_messages(store: Store) -> None:
    await store.create_session(NewSession("sess_p"))
    await store.append("sess_p", [said("u"), said("a", "assistant")])
    session = await store.get_session("sess_p")
    assert session is not None
    assert session.message_count == 2


@pytest.mark.parametrize("ident", ["", "../x", "a/b", ".hidden", "a\nb", "x" * 129])
async def test_h08_an_id_that_could_be_a_path_is_refused(store: Store, ident: str) -> None:
    with pytest.raises(BadSessionId):
        await store.create_session(NewSession(ident))


async def test_h12_ending_and_reopening_are_repeatable(store: Store) -> None:
    await store.create_session(NewSession("sess_p"))
    assert not await store.reopen_session("sess_p")
    assert not await store.reopen_session("sess_unknown")
    assert not await store.end_session("sess_unknown", EndReason.IDLE)
    assert await store.end_session("sess_p", EndReason.RESET)
    assert not await store.end_session("sess_p", EndReason.IDLE)
    ended = await store.get_session("sess_p")
    assert ended is not None
    assert ended.end_reason == EndReason.RESET
    assert await store.reopen_session("sess_p")
    assert not await store.reopen_session("sess_p")
    assert await store.end_session("sess_p", EndReason.DAILY)
    again = await store.get_session("sess_p")
    assert again is not None
    assert again.end_reason == EndReason.DAILY


async def test_b19_b21_expiry_is_finalised_durably_and_anew_after_reopening(place: Place) -> None:
    async with place.opened() as store:
        await store.create_session(NewSession("sess_p"))
        await store.end_session("sess_p", EndReason.IDLE)
        changed = await store.update_session("sess_p", SessionChange(expiry_finalized=True))
        assert changed.expiry_finalized
    async with place.opened() as store:
        kept = await store.get_session("sess_p")
        assert kept == changed
        await store.reopen_session("sess_p")
        reopened = await store.get_session("sess_p")
        assert reopened is not None
        assert not reopened.expiry_finalized


async def test_c22_a_change_replaces_what_it_names_and_leaves_the_rest(store: Store) -> None:
    await store.create_session(NewSession("sess_p", instructions="be brief", model="m"))
    changed = await store.update_session("sess_p", SessionChange(instructions="be long"))
    assert (changed.instructions, changed.model) == ("be long", "m")
    assert await store.update_session("sess_p", SessionChange()) == changed
    with pytest.raises(NoSuchSession):
        await store.update_session("sess_unknown", SessionChange(model="m"))


async def test_h15_lists_follow_what_was_stored_and_not_the_clock(place: Place) -> None:
    async with place.opened() as store:
        for name in "abc":
            await with_turns(store, f"sess_{name}", 1)
            place.clock.now -= 3600
        await store.append("sess_b", [said("later by order, earlier by the clock")])
        await store.create_session(NewSession("sess_d"))
        assert [session.id for session in await store.list_sessions()] == ["sess_d", "sess_b", "sess_c", "sess_a"]
        spoken = await store.history("sess_b")
        assert texts(spoken)[-1] == "later by order, earlier by the clock"
        assert spoken[-1].created_at < spoken[0].created_at


async def test_lists_are_filtered_and_paged(store: Store) -> None:
    await store.create_session(NewSession("sess_1", platform="web", owner="ann"))
    await store.create_session(NewSession("sess_2", platform="web", owner="bob"))
    await store.create_session(NewSession("sess_3", platform="telegram", owner="ann", chat="7"))
    await store.set_title("sess_1", "Garden")
    await store.end_session("sess_2", EndReason.IDLE)

    async def listed(query: SessionQuery, **page: int) -> list[str]:
        return [session.id for session in await store.list_sessions(query, **page)]

    assert await listed(SessionQuery(platform="web")) == ["sess_2", "sess_1"]
    assert await listed(SessionQuery(owner="ann")) == ["sess_3", "sess_1"]
    assert await listed(SessionQuery(owner="ann", chat="7")) == ["sess_3"]
    assert await listed(SessionQuery(titled=True)) == ["sess_1"]
    assert await listed(SessionQuery(titled=False, live=True)) == ["sess_3"]
    assert await listed(SessionQuery(), limit=1, offset=1) == ["sess_2"]
    assert len(await listed(SessionQuery(live=False))) == 1


async def test_h09_a_beginning_of_an_id_finds_its_sessions_and_patterns_mean_nothing(store: Store) -> None:
    for ident in ("sess_ab1", "sess_ab2", "sess_b"):
        await store.create_session(NewSession(ident))
    assert [session.id for session in await store.sessions_by_prefix("sess_ab")] == ["sess_ab1", "sess_ab2"]
    assert [session.id for session in await store.sessions_by_prefix("sess_ab", limit=1)] == ["sess_ab1"]
    assert await store.sessions_by_prefix("sess%") == []
    assert await store.sessions_by_prefix("sess-") == []


async def test_d15_a_title_is_cleaned_and_a_taken_one_names_its_session(store: Store) -> None:
    await store.create_session(NewSession("sess_p", owner="ann"))
    await store.create_session(NewSession("sess_q", owner="ann"))
    await store.create_session(NewSession("sess_b", owner="bob"))
    titled = await store.set_title("sess_p", "  Garden\x07 \n Plan " + "x" * 200)
    assert titled.title == ("Garden Plan " + "x" * 200)[:100]
    await store.set_title("sess_p", "Garden Plan")
    await store.set_title("sess_p", "Garden Plan")
    with pytest.raises(TitleTaken) as refused:
        await store.set_title("sess_q", "Garden Plan")
    assert refused.value.session_id == "sess_p"
    assert (await store.set_title("sess_b", "Garden Plan")).title == "Garden Plan"
    with pytest.raises(BadTitle):
        await store.set_title("sess_p", " \x00\n ")
    with pytest.raises(NoSuchSession):
        await store.set_title("sess_unknown", "T")


async def test_b28_a_title_stands_for_its_newest_continuation(store: Store) -> None:
    for n, title in enumerate(("P", "P #2", "P #10", "P%", "P_", "P #x", "Px #99")):
        await store.create_session(NewSession(f"sess_{n}"))
        await store.set_title(f"sess_{n}", title)

    async def found(title: str, query: SessionQuery = SessionQuery()) -> str | None:  # noqa: B008 - a frozen value
        session = await store.find_title(title, query)
        return None if session is None else session.title

    assert await found("P") == "P #10"
    assert await found("P #2") == "P #2"
    assert await found("P%") == "P%"
    assert await found("P_") == "P_"
    assert await found("p") is None
    assert await found("P", SessionQuery(platform="web")) is None
    assert await store.next_title("P") == "P #11"
    assert await store.next_title("P #2") == "P #11"
    assert await store.next_title("Q") == "Q"


async def test_a15_a27_a_route_is_kept_moved_and_recovered(store: Store) -> None:
    await with_turns(store, "sess_p", 1, key="k", platform="web")
    await store.set_route("k", "sess_p", platform="web")
    await with_turns(store, "sess_t", 1)
    await store.set_route("k", "sess_t")
    route = await store.route("k")
    assert route is not None
    assert (route.session_id, route.platform) == ("sess_t", "web")
    with pytest.raises(NoSuchSession):
        await store.set_route("k", "sess_unknown")
    assert await store.recover_route("k", platform="telegram") == route


async def test_a27_a_lost_route_leads_to_the_latest_live_session_that_has_a_message(place: Place) -> None:
    async with place.opened() as store:
        await with_turns(store, "sess_old", 1, key="k", platform="web")
        await with_turns(store, "sess_new", 1, key="k", platform="web")
        await with_turns(store, "sess_other", 1, key="k", platform="telegram")
        await store.append("sess_old", [said("the last word")])
        await store.create_session(NewSession("sess_empty", key="k", platform="web"))
        assert await store.route("k") is None
        recovered = await store.recover_route("k", platform="web")
        assert recovered is not None
        assert recovered.session_id == "sess_old"
    async with place.opened() as store:
        assert await store.route("k") == recovered


async def test_a27_b21_a_session_ended_on_purpose_is_never_recovered(store: Store) -> None:
    await with_turns(store, "sess_p", 1, key="k", platform="web")
    await store.end_session("sess_p", EndReason.RESET)
    assert await store.recover_route("k", platform="web") is None


async def test_d16_a_branch_has_the_history_and_is_its_own(store: Store) -> None:
    await with_turns(store, "sess_p", 2)
    branch = await store.derive_session("sess_p", NewSession("sess_b", origin=SessionOrigin.BRANCH))
    assert (branch.parent_id, branch.message_count) == ("sess_p", 4)
    await store.append("sess_b", [said("u3")])
    assert texts(await store.history("sess_p")) == ["u1", "a1", "u2", "a2"]
    assert texts(await store.history("sess_b")) == ["u1", "a1", "u2", "a2", "u3"]
    parent = await store.get_session("sess_p")
    assert parent is not None
    assert parent.live
    with pytest.raises(NoSuchSession):
        await store.derive_session("sess_unknown", NewSession("sess_c"))
    assert await store.get_session("sess_c") is None


async def test_b32_c17_a_compressed_session_lives_in_its_child(store: Store) -> None:
    await with_turns(store, "sess_p", 2, key="k")
    await store.set_route("k", "sess_p")
    await lead(store, "slug", "sess_p")
    await store.commit_turn(TurnCommit("sess_p", [], response("resp", "sess_p"), "slug"))
    await store.derive_session("sess_p", NewSession("sess_b", origin=SessionOrigin.BRANCH))
    for parent, child in (("sess_p", "sess_c"), ("sess_c", "sess_d")):
        born = NewSession(child, origin=SessionOrigin.COMPRESSION)
        await store.derive_session(parent, born, messages=[said("summary")], end_parent=EndReason.COMPRESSION)
    await store.create_session(NewSession("sess_x", parent_id="sess_d", origin=SessionOrigin.BRANCH))
    end = await store.live_end("sess_p")
    assert end is not None
    assert (end.id, end.parent_id) == ("sess_d", "sess_c")
    assert texts(await store.history("sess_d")) == ["summary"]
    route, slug = await store.route("k"), await store.get_conversation("slug")
    assert route is not None
    assert slug is not None
    assert (route.session_id, slug.session_id, slug.response_id) == ("sess_d", "sess_d", "resp")
    assert await store.live_end("sess_b") == await store.get_session("sess_b")
    assert await store.live_end("sess_unknown") is None


async def test_prune_takes_only_what_nothing_leads_to(place: Place) -> None:
    async with place.opened() as store:
        for name in ("gone", "live", "routed", "slugged", "parent"):
            await with_turns(store, f"sess_{name}", 1)
            if name != "live":
                await store.end_session(f"sess_{name}", EndReason.IDLE)
        await store.set_route("k", "sess_routed")
        await lead(store, "slug", "sess_slugged")
        await store.create_session(NewSession("sess_child", parent_id="sess_parent"))
        assert await store.prune(before=place.clock.now) == []
        assert await store.prune(before=place.clock.now + 1) == ["sess_gone"]
        assert await store.audit("sess_gone") == []
        assert [hit.session_id for hit in await store.search("u1")] == [
            "sess_parent",
            "sess_slugged",
            "sess_routed",
            "sess_live",
        ]
        fresh = await with_turns(store, "sess_gone", 1)
        assert min(fresh) > max(message.id for message in await store.audit("sess_parent"))


async def test_every_fact_of_a_session_survives_a_restart(place: Place) -> None:
    metadata = {"é": [1, None]}
    full = NewSession("sess_p", "k", "web", "ann", "7", "sess_o", "branch", "demo/x", "/srv", "be kind", metadata)
    async with place.opened() as store:
        made = await store.create_session(full)
    async with place.opened() as store:
        assert await store.get_session("sess_p") == made
        assert await store.create_session(replace(full, model="other")) == made
