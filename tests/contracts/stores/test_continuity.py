"""Conversations and responses: a slug never loses its session, whatever is evicted."""

import asyncio
from dataclasses import replace

import pytest

from ostler.gateway.model.errors import CallsAnswered, ConversationMoved, NoSuchSession
from ostler.gateway.model.records import (
    IdempotencyRecord,
    NewSession,
    ParkedCall,
    SessionOrigin,
    TakenBack,
    TurnBegin,
    TurnCommit,
)
from ostler.gateway.model.store import Store
from tests.support.stores import FEW_BYTES, FEW_RESPONSES, Place, lead, response, said, texts, those_kept


async def test_c01_c25_a_turn_is_stored_whole_with_its_response_and_slug(place: Place) -> None:
    call = ParkedCall("call_1", "sess_p", "resp_1", "weather", "{}", place.clock.now + 60, place.clock.now)
    answer = IdempotencyRecord("key", "", "digest", 200, (("x", "y"),), b"{}", place.clock.now + 300)
    turn = TurnCommit("sess_p", [said("u"), said("a", "assistant")], response("resp_1"), "slug", "", [call], answer)
    async with place.opened() as store:
        await store.claim_conversation("slug", NewSession("sess_p"))
        assert len(await store.commit_turn(turn)) == 2
    async with place.opened() as store:
        assert texts(await store.history("sess_p")) == ["u", "a"]
        assert await store.get_response("resp_1") == response("resp_1")
        slug = await store.get_conversation("slug")
        assert slug is not None
        assert (slug.session_id, slug.response_id) == ("sess_p", "resp_1")
        assert await store.parked("sess_p") == [call]
        assert await store.recall("key") == answer


async def test_c25_a_turn_of_an_unknown_session_leaves_nothing(store: Store) -> None:
    with pytest.raises(NoSuchSession):
        await store.commit_turn(TurnCommit("sess_unknown", [said("u")], response("resp_1"), "slug"))
    assert await store.get_response("resp_1") is None
    assert await store.get_conversation("slug") is None


async def test_n19_the_end_of_a_turn_notes_its_response_only_where_the_slug_leads_to_it(store: Store) -> None:
    for name in ("sess_p", "sess_q"):
        await store.create_session(NewSession(name))
    await store.commit_turn(TurnCommit("sess_p", [said("u")], response("resp_1"), "never made"))
    assert await store.get_conversation("never made") is None
    await lead(store, "slug", "sess_q")
    await store.commit_turn(TurnCommit("sess_q", [said("u")], response("resp_q"), "slug"))
    await store.commit_turn(TurnCommit("sess_p", [said("u")], response("resp_2"), "slug"))
    slug = await store.get_conversation("slug")
    assert slug is not None
    assert (slug.session_id, slug.response_id) == ("sess_q", "resp_q")
    await store.delete_conversation("slug")
    await store.commit_turn(TurnCommit("sess_q", [said("u")], response("resp_3", "sess_q"), "slug"))
    assert await store.get_conversation("slug") is None


async def test_n19_a_command_moves_a_slug_only_from_where_it_found_it(store: Store) -> None:
    for name in ("sess_p", "sess_q", "sess_r"):
        await store.create_session(NewSession(name))
    assert await store.move_conversation("slug", None, "sess_p")
    assert await store.move_conversation("slug", "sess_p", "sess_q")
    assert not await store.move_conversation("slug", "sess_p", "sess_r")
    assert not await store.move_conversation("slug", None, "sess_r")
    slug = await store.get_conversation("slug")
    assert slug is not None
    assert slug.session_id == "sess_q"
    await store.delete_conversation("slug")
    assert not await store.move_conversation("slug", "sess_q", "sess_r")
    assert await store.get_conversation("slug") is None


async def test_n22_items_go_where_the_slug_leads_at_that_moment(store: Store) -> None:
    await store.claim_conversation("slug", NewSession("sess_p"))
    assert await store.append_to_conversation("slug", [said("one")]) == "sess_p"
    child = NewSession("sess_q", origin=SessionOrigin.COMPRESSION)
    first = (await store.history("sess_p"))[0].id
    await store.append("sess_p", [said("two")])
    summed_up = [said("summary")]
    await store.derive_session("sess_p", child, messages=summed_up, end_parent="compression", behind=first)
    assert await store.append_to_conversation("slug", [said("three")]) == "sess_q"
    assert texts(await store.history("sess_q")) == ["summary", "two", "three"]
    await store.delete_conversation("slug")
    assert await store.append_to_conversation("slug", [said("four")]) is None
    with pytest.raises(ConversationMoved):
        await store.begin_turn(TurnBegin("sess_p", [said("late")]))
    assert texts(await store.history("sess_p")) == ["one", "two"]


async def test_n24_n23_a_turn_begins_whole_or_not_at_all_and_is_taken_back_whole(store: Store) -> None:
    await store.create_session(NewSession("sess_p", instructions="old"))
    await store.park([ParkedCall(name, "sess_p", "resp_1", "weather", "{}", 0.0, 0.0) for name in ("call_1", "call_2")])
    begin = TurnBegin("sess_p", [said("sunny", "tool")], response("resp_2"), {"call_1": "sunny", "no": "x"}, "new")
    ids = await store.begin_turn(begin)
    with pytest.raises(CallsAnswered) as refused:
        await store.begin_turn(replace(begin, response=response("resp_3"), answers={"call_2": "x", "call_1": "y"}))
    assert refused.value.call_ids == ("call_1",)
    assert [call.state for call in await store.parked("sess_p", waiting=False)] == ["answered", "waiting"]
    assert await store.get_response("resp_3") is None
    added = await store.append("sess_p", [said("added")])
    await store.take_back(TakenBack("sess_p", ids, ("call_1",), "old"))
    assert [message.id for message in await store.history("sess_p")] == added
    assert [call.state for call in await store.parked("sess_p", waiting=False)] == ["waiting", "waiting"]
    session = await store.get_session("sess_p")
    assert session is not None
    assert (session.instructions, session.message_count) == ("old", 1)
    assert await store.begin_turn(begin)
    assert await store.deactivate("sess_p", [*ids, *added]) == 1


async def test_c12_a_slug_never_loses_its_session(store: Store) -> None:
    assert await store.get_conversation("slug") is None
    for name in ("sess_p", "sess_q"):
        await store.create_session(NewSession(name))
    await lead(store, "slug", "sess_p")
    for name in ("resp_1", "resp_2"):
        await store.commit_turn(TurnCommit("sess_p", [said("u")], response(name), "slug"))
        held = await store.get_conversation("slug")
        assert held is not None
        assert (held.session_id, held.response_id) == ("sess_p", name)
    await lead(store, "slug", "sess_q")
    moved = await store.get_conversation("slug")
    assert moved is not None
    assert (moved.session_id, moved.response_id) == ("sess_q", "resp_2")


async def test_c03_c12_eviction_takes_responses_and_leaves_every_slug(store: Store) -> None:
    for n in range(FEW_RESPONSES + 1):
        await store.claim_conversation(f"slug_{n}", NewSession("sess_p"))
        await store.commit_turn(TurnCommit("sess_p", [], response(f"resp_{n}"), f"slug_{n}"))
    assert await store.get_response("resp_0") is None
    assert await store.get_response("resp_1") is not None
    assert None not in [await store.get_conversation(f"slug_{n}") for n in range(FEW_RESPONSES + 1)]
    slug = await store.get_conversation("slug_0")
    assert slug is not None
    assert slug.session_id == "sess_p"


async def test_c24_the_one_just_read_survives_the_next_eviction(store: Store) -> None:
    for n in range(FEW_RESPONSES):
        await store.save_response(response(f"resp_{n}"))
    assert await store.get_response("resp_0") is not None
    await store.save_response(response("resp_new"))
    assert await store.get_response("resp_0") is not None
    assert await store.get_response("resp_1") is None


async def test_rc9_responses_are_bounded_by_their_bytes_too_and_the_newest_is_kept_whatever_its_size(
    store: Store,
) -> None:
    for n in range(10):
        await store.save_response(response(f"resp_{n}", pad="x" * (FEW_BYTES // 5)))
    made = [f"resp_{n}" for n in range(10)]
    assert await those_kept(store, *made) == made[6:]
    await store.save_response(response("resp_huge", pad="x" * 2 * FEW_BYTES))
    assert await those_kept(store, *made, "resp_huge") == ["resp_huge"]


async def test_the_input_items_of_a_response_are_paged(store: Store) -> None:
    named = [{"type": "message", "id": f'i"{number}', "n": number} for number in range(9)]
    await store.save_response(replace(response("resp_p", owner="ann"), input_items=tuple(named)))
    await store.save_response(response("resp_q", owner="ann"))
    for newest in (False, True):
        expected = named[::-1] if newest else named
        for limit in (1, 3, 8, 9, 10):
            for place, after in enumerate([None, *(str(item["id"]) for item in expected)]):
                page = await store.input_items("resp_p", limit, newest=newest, after=after, owner="ann")
                assert page == expected[place:][:limit]
        assert await store.input_items("resp_p", 3, newest=newest, after='i"10', owner="ann") is None
        assert await store.input_items("resp_p", 3, newest=newest, owner="bob") is None
        assert await store.input_items("resp_q", 3, newest=newest, owner="ann") == []
        assert await store.input_items("resp_no", 3, newest=newest, owner="ann") is None


@pytest.mark.parametrize("newest", [False, True])
async def test_a_walk_over_input_items_of_one_id_ends(store: Store, newest: bool) -> None:
    named = tuple({"type": "message", "id": name, "n": number} for number, name in enumerate("abcabacca"))
    await store.save_response(replace(response("resp_p"), input_items=named))
    places: list[int] = []
    after: str | None = None
    while page := await store.input_items("resp_p", 2, newest=newest, after=after):
        places += [item["n"] for item in page]
        after = page[-1]["id"]
        assert len(places) <= len(named)
    assert places == sorted(set(places), reverse=newest)


async def test_c24_what_was_listed_survives_the_next_eviction(store: Store) -> None:
    for n in range(FEW_RESPONSES):
        await store.save_response(response(f"resp_{n}"))
    assert await store.input_items("resp_0", 5, newest=True) == []
    await store.save_response(response("resp_new"))
    assert await store.get_response("resp_0") is not None


async def test_a_response_is_replaced_and_deleted_once(store: Store) -> None:
    await store.save_response(response("resp_1", status="in_progress"))
    assert [found.id for found in await store.unfinished_responses()] == ["resp_1"]
    await store.save_response(response("resp_1"))
    assert await store.unfinished_responses() == []
    assert await store.delete_response("resp_1")
    assert not await store.delete_response("resp_1")
    assert await store.get_response("resp_1") is None


async def test_c20_deleting_the_latest_response_leaves_the_slug(store: Store) -> None:
    await store.claim_conversation("slug", NewSession("sess_p"))
    await store.commit_turn(TurnCommit("sess_p", [said("u")], response("resp_1"), "slug"))
    await store.delete_response("resp_1")
    slug = await store.get_conversation("slug")
    assert slug is not None
    assert (slug.session_id, slug.response_id) == ("sess_p", "resp_1")


async def test_owners_share_neither_slugs_nor_responses_nor_keys(place: Place, store: Store) -> None:
    await store.save_response(response("resp_1", owner="ann"))
    assert await store.get_response("resp_1", owner="bob") is None
    assert not await store.delete_response("resp_1", owner="bob")
    await lead(store, "slug", "sess_a", "ann")
    assert await store.get_conversation("slug", owner="bob") is None
    mine = IdempotencyRecord("key", "ann", "digest", 200, (), b"ann's", place.clock.now + 300)
    await store.remember(mine)
    assert await store.recall("key", owner="bob") is None


async def test_c18_racing_first_turns_of_a_slug_get_one_session(store: Store) -> None:
    claims = await asyncio.gather(*(store.claim_conversation("slug", NewSession(f"sess_{n}")) for n in range(8)))
    assert len({claim.session_id for claim in claims}) == 1
    assert len(await store.list_sessions()) == 1


async def test_a_conversation_is_changed_and_forgotten(store: Store) -> None:
    await store.claim_conversation("a", NewSession("sess_a"))
    changed = await store.update_conversation("a", {"topic": "x"})
    assert changed is not None
    assert changed.metadata == {"topic": "x"}
    await store.commit_turn(TurnCommit("sess_a", [], response("resp_1"), "a"))
    after = await store.get_conversation("a")
    assert after is not None
    assert (after.metadata, after.response_id) == ({"topic": "x"}, "resp_1")
    assert await store.update_conversation("unknown", {}) is None
    assert await store.delete_conversation("a")
    assert not await store.delete_conversation("a")


async def test_c19_an_answer_is_remembered_until_it_expires_also_over_a_restart(place: Place) -> None:
    headers = (("X-Ostler-Session-Id", "p"),)
    first = IdempotencyRecord("key", "", "digest", 200, headers, b"\x00body", place.clock.now + 300)
    later = IdempotencyRecord("key", "", "other", 200, (), b"later", place.clock.now + 600)
    async with place.opened() as store:
        assert await store.remember(first) == first
        assert await store.remember(later) == first
    async with place.opened() as store:
        place.clock.now += 299
        assert await store.recall("key") == first
        place.clock.now += 1
        assert await store.recall("key") is None
        assert await store.remember(later) == later


async def test_parked_calls_are_answered_once_and_expire(place: Place) -> None:
    now = place.clock.now
    calls = [ParkedCall(f"call_{n}", "sess_p", "resp_1", "f", '{"a":1}', now + 60 * n, now) for n in (1, 2, 3)]
    async with place.opened() as store:
        await store.park(calls)
        await store.park(calls[:1])
    async with place.opened() as store:
        assert await store.parked() == calls
        assert await store.answer("call_1", [{"type": "input_text", "text": "sunny"}]) == calls[0]
        again = await store.answer("call_1", "rain")
        assert again is not None
        assert (again.state, again.output) == ("answered", [{"type": "input_text", "text": "sunny"}])
        assert await store.answer("call_unknown", "x") is None
        assert await store.expire_parked(now + 60) == []
        assert await store.expire_parked(now + 120) == [calls[1]]
        assert await store.expire_parked() == [calls[2]]
        assert await store.parked("sess_p") == []
        states = [call.state for call in await store.parked("sess_p", waiting=False)]
        assert states == ["answered", "expired", "expired"]
        late = await store.answer("call_2", "late")
        assert late is not None
        assert late.state == "expired"


async def test_marks_are_there_in_the_next_life(place: Place) -> None:
    async with place.opened() as store:
        await store.set_mark("drain:sess_p", {"turn": 1})
        await store.set_mark("drain:sess_p", {"turn": 2})
        await store.set_mark("other", {})
    async with place.opened() as store:
        assert await store.marks("drain:") == {"drain:sess_p": {"turn": 2}}
        assert await store.marks() == {"drain:sess_p": {"turn": 2}, "other": {}}
