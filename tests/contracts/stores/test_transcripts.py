"""Messages: in order, once, never destroyed; rewrites that happened or did not; search."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ostler.gateway.model.errors import NoSuchSession, UnknownMessage
from ostler.gateway.model.records import EndReason, MessageCounts, NewMessage, NewSession, SessionOrigin, SessionQuery
from ostler.gateway.model.store import Store
from ostler.wire.json import JsonObject
from tests.support.stores import Place, said, texts, with_turns


async def test_rh1_what_was_appended_is_there_after_a_restart_as_it_was_said(place: Place) -> None:
    items = [{"type": "input_text", "text": "a\x00b \ud83d é 😀"}, {"type": "input_image", "url": "file:x"}]
    async with place.opened() as store:
        await store.create_session(NewSession("sess_p"))
        await store.append("sess_p", [NewMessage("user", items, "a\x00b \ud83d é 😀", "resp_1", 12.5)])
    async with place.opened() as store:
        (message,) = await store.history("sess_p")
        assert message.items == ({"type": "input_text", "text": "a\x00b \ufffd é 😀"}, items[1])
        assert (message.text, message.response_id, message.created_at) == ("a\x00b \ufffd é 😀", "resp_1", 12.5)
        assert (message.active, message.compacted) == (True, False)


async def test_a_transcript_is_paged(store: Store) -> None:
    for name in ("sess_p", "sess_q"):
        await store.create_session(NewSession(name))
    ids = [(await store.append("sess_p", [said(str(number))]))[0] for number in range(7)]
    (other,) = await store.append("sess_q", [said("other")])
    await store.deactivate_from("sess_p", ids.pop())
    for newest in (False, True):
        expected = ids[::-1] if newest else ids
        for limit in (1, 2, 6, 7):
            for place, after in enumerate([None, *expected]):
                page = await store.page("sess_p", limit, newest=newest, after=after)
                assert page is not None
                assert [message.id for message in page] == expected[place:][:limit]
        for unknown in (other, 0, 10**18 - 1):
            assert await store.page("sess_p", 3, newest=newest, after=unknown) is None
    assert await store.page("sess_nobody", 3, newest=True) == []


async def test_the_items_of_a_transcript_are_paged_and_found(store: Store) -> None:
    await store.create_session(NewSession("sess_p"))
    await store.create_session(NewSession("sess_q"))
    named = [{"type": "message", "id": f'i"{number}', "n": number} for number in range(11)]
    for first, last in ((0, 1), (1, 4), (4, 4), (4, 5), (5, 10)):
        await store.append("sess_p", [NewMessage("user", named[first:last], 'i"7 is only a word here')])
    (undone,) = await store.append("sess_p", [NewMessage("user", named[10:], "")])
    await store.deactivate_from("sess_p", undone)
    assert await store.items("sess_q", 5, newest=True) == []

    for newest in (False, True):
        expected = named[:10][::-1] if newest else named[:10]
        for limit in (1, 2, 3, 9, 10, 11):
            assert await store.items("sess_p", limit, newest=newest) == expected[:limit]
            for place, item in enumerate(expected):
                page = await store.items("sess_p", limit, newest=newest, after=item["id"])
                assert page == expected[place + 1 :][:limit]
        for unknown in ("i", 'i"10', "nothing"):
            assert await store.items("sess_p", 3, newest=newest, after=unknown) is None
    assert [await store.item("sess_p", item["id"]) for item in named] == [*named[:10], None]
    assert await store.item("sess_q", named[0]["id"]) is None


async def walked(page: Callable[[str | None], Awaitable[list[JsonObject] | None]]) -> list[JsonObject]:
    """Everything that somebody gets to see who goes from page to page."""
    seen: list[JsonObject] = []
    after = None
    for _ in range(100):
        found = await page(after)
        assert found is not None
        if not found:
            return seen
        seen += found
        after = found[-1]["id"]
    raise AssertionError("the pages have no end")


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
async def test_a_walk_over_items_of_one_id_ends(store: Store, newest: bool, limit: int) -> None:
    await store.create_session(NewSession("sess_p"))
    named = [{"type": "message", "id": name, "n": number} for number, name in enumerate("abcabacca")]
    for first, last in ((0, 2), (2, 3), (3, 7), (7, 9)):
        await store.append("sess_p", [NewMessage("user", named[first:last], "")])
    seen = await walked(lambda after: store.items("sess_p", limit, newest=newest, after=after))
    places = [item["n"] for item in seen]
    assert places == sorted(set(places), reverse=newest)

    assert await store.known_items("sess_p", ["a", "d", 'c"', "b"]) == {"a", "b"}
    assert await store.known_items("sess_q", ["a"]) == set()


async def test_rh6_ids_grow_over_sessions_and_concurrent_writers(store: Store) -> None:
    for n in range(4):
        await store.create_session(NewSession(f"sess_{n}"))

    async def write(session: int) -> list[int]:
        return [ident for turn in range(25) for ident in await store.append(f"sess_{session}", [said(f"{turn}")])]

    ids = await asyncio.gather(*(write(n) for n in range(4)))
    assert sorted({ident for one in ids for ident in one}) == sorted(ident for one in ids for ident in one)
    for n, one in enumerate(ids):
        assert one == sorted(one)
        assert texts(await store.history(f"sess_{n}")) == [str(turn) for turn in range(25)]


async def test_an_append_to_an_unknown_session_is_refused_and_takes_no_neighbour_with_it(store: Store) -> None:
    await store.create_session(NewSession("sess_p"))
    outcomes = await asyncio.gather(
        *(store.append(f"sess_{name}", [said("x")]) for name in "pqpqp"), return_exceptions=True
    )
    assert [isinstance(outcome, NoSuchSession) for outcome in outcomes] == [False, True, False, True, False]
    assert len(await store.history("sess_p")) == 3
    assert await store.audit("sess_q") == []
    with pytest.raises(NoSuchSession):
        await store.append("sess_q", [])


async def test_the_newest_messages_come_in_order(store: Store) -> None:
    await with_turns(store, "sess_p", 3)
    assert texts(await store.history("sess_p", last=3)) == ["a2", "u3", "a3"]
    assert texts(await store.history("sess_p", last=99)) == ["u1", "a1", "u2", "a2", "u3", "a3"]
    assert await store.history("sess_unknown") == []


async def test_d02_d21_undone_rows_stay_out_of_the_transcript_and_out_of_search(place: Place) -> None:
    async with place.opened() as store:
        ids = await with_turns(store, "sess_p", 2)
        gone = await store.deactivate_from("sess_p", ids[2])
        assert texts(gone) == ["u2", "a2"]
        assert await store.counts("sess_p") == MessageCounts(active=2, users=1, compacted=0, undone=2)
    async with place.opened() as store:
        await store.append("sess_p", [said("u3")])
        assert texts(await store.history("sess_p")) == ["u1", "a1", "u3"]
        assert texts(await store.audit("sess_p")) == ["u1", "a1", "u2", "a2", "u3"]
        assert await store.search("u2") == []
        session = await store.get_session("sess_p")
        assert session is not None
        assert session.message_count == 3


async def test_d03_undoing_what_is_not_there_changes_nothing(store: Store) -> None:
    ids = await with_turns(store, "sess_p", 1)
    await with_turns(store, "sess_q", 1)
    for session, ident in (("sess_q", ids[0]), ("sess_p", ids[-1] + 1), ("sess_unknown", ids[0])):
        with pytest.raises(UnknownMessage):
            await store.deactivate_from(session, ident)
    await store.deactivate_from("sess_p", ids[0])
    with pytest.raises(UnknownMessage):
        await store.deactivate_from("sess_p", ids[0])
    assert texts(await store.history("sess_q")) == ["u1", "a1"]


async def test_d06_rewriting_replaces_the_transcript_and_destroys_nothing(store: Store) -> None:
    await with_turns(store, "sess_p", 1)
    await store.rewrite_transcript("sess_p", [said("new")])
    assert texts(await store.history("sess_p")) == ["new"]
    assert await store.rewrite_transcript("sess_p", []) == []
    assert await store.history("sess_p") == []
    session = await store.get_session("sess_p")
    assert session is not None
    assert session.message_count == 0
    assert texts(await store.audit("sess_p")) == ["u1", "a1", "new"]
    with pytest.raises(NoSuchSession):
        await store.rewrite_transcript("sess_unknown", [said("x")])
    assert await store.audit("sess_unknown") == []


async def test_d07_d12_d21_compressing_keeps_the_tail_behind_the_summary_and_the_rest_searchable(store: Store) -> None:
    ids = await with_turns(store, "sess_p", 3)
    child = NewSession("sess_c", origin=SessionOrigin.COMPRESSION)
    summary = [said("summary", "system")]
    await store.derive_session("sess_p", child, messages=summary, end_parent=EndReason.COMPRESSION, behind=ids[3])
    transcript = await store.history("sess_c")
    assert texts(transcript) == ["summary", "u3", "a3"]
    assert [message.id for message in transcript] == sorted(message.id for message in transcript)
    assert await store.counts("sess_c") == MessageCounts(active=3, users=1, compacted=0, undone=0)
    assert texts(await store.history("sess_p")) == ["u1", "a1", "u2", "a2", "u3", "a3"]
    assert [hit.session_id for hit in await store.search("u1")] == ["sess_p"]


async def test_d07_undo_after_undo_keeps_every_row(store: Store) -> None:
    ids = await with_turns(store, "sess_p", 3)
    await store.deactivate_from("sess_p", ids[4])
    await store.deactivate_from("sess_p", ids[2])
    await store.rewrite_transcript("sess_p", [said("again")])
    assert texts(await store.history("sess_p")) == ["again"]
    assert len(await store.audit("sess_p")) == 7


async def test_search_finds_words_and_beginnings_newest_first_within_what_may_be_seen(store: Store) -> None:
    await store.create_session(NewSession("sess_a", owner="ann"))
    await store.create_session(NewSession("sess_b", owner="bob"))
    await store.append("sess_a", [said("The Gärten of Babylon"), said("nothing here")])
    await store.append("sess_b", [said("a garden, watered")])
    assert [hit.session_id for hit in await store.search("gar")] == ["sess_b", "sess_a"]
    assert [hit.session_id for hit in await store.search("gar", SessionQuery(owner="ann"))] == ["sess_a"]
    assert [hit.session_id for hit in await store.search("babylon GARTEN")] == ["sess_a"]
    assert [hit.snippet for hit in await store.search("babylon")] == ["The Gärten of [Babylon]"]
    assert len(await store.search("gar", limit=1)) == 1


@pytest.mark.parametrize("words", ["", '"', "* OR", "NEAR(", "a AND", "text:", "(", "\x00", "-", "%", "'; DROP TABLE"])
async def test_no_search_words_are_an_operator(store: Store, words: str) -> None:
    await with_turns(store, "sess_p", 1)
    assert await store.search(words) == []
