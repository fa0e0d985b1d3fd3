"""What nothing leads to ends and is deleted, what is erased is in no file, and what is brought in keeps its times."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.gateway.model.records import (
    UNSTORED,
    IdempotencyRecord,
    NewSession,
    ParkedCall,
    SessionOrigin,
    SessionQuery,
    TurnCommit,
)
from ostler.gateway.model.store import Store
from ostler.gateway.stores.exchange import Brought, bring_in, bundles, lines_out
from tests.support.stores import Place, lead, response, said, texts
from tests.support.waiting import eventually

SECRET = "the word is xylophonist"
LATER = 5_000_000.0


async def session(store: Store, name: str, **facts: object) -> str:
    await store.create_session(NewSession(name, platform="api", owner="", **facts))  # type: ignore[arg-type]  # a test's short way to name fields
    await store.append(name, [said(SECRET)])
    return name


async def alive(store: Store) -> list[str]:
    return sorted(each.id for each in await store.list_sessions(SessionQuery(live=True)))


async def test_n28_sessions_that_nothing_leads_to_end_and_the_others_do_not(store: Store) -> None:
    lone = await session(store, "lone")
    await session(store, "keyed", key="/k")
    await session(store, "answered")
    await store.save_response(response("resp_1", "answered"))
    await session(store, "named")
    await lead(store, "slug", "named")
    await session(store, "parent")
    await store.derive_session("parent", NewSession("child", key="/c", origin=SessionOrigin.BRANCH))
    await session(store, "asked")
    await store.park([ParkedCall("call_1", "asked", None, "f", "{}", LATER, 0.0)])
    held = await session(store, "held")
    assert await store.end_unreachable(before=0.0) == []
    assert await store.end_unreachable(before=LATER, besides=[held]) == [lone]
    assert await store.end_unreachable(before=LATER, besides=[held]) == []
    found = await store.get_session(lone)
    assert found is not None
    assert found.end_reason == "unreachable"


async def test_n28_what_nothing_leads_to_is_deleted_with_the_responses_of_a_slug_that_is_gone(store: Store) -> None:
    await session(store, "deleted")
    await lead(store, "x", "deleted")
    await store.commit_turn(TurnCommit("deleted", [said("u")], replace(response("resp_1", "deleted"), slug="x"), "x"))
    await session(store, "answered")
    await store.save_response(response("resp_2", "answered"))
    assert await store.prune_unreachable(before=LATER) == []
    await store.delete_conversation("x")
    assert await store.end_unreachable(before=LATER) == []
    assert await store.prune_unreachable(before=LATER, only="answered") == []
    assert await store.prune_unreachable(before=LATER) == ["deleted"]
    assert await store.get_response("resp_1") is None
    assert await store.search("xylophonist") != []
    await store.delete_response("resp_2")
    assert await store.prune_unreachable(before=LATER) == ["answered"]
    assert await store.search("xylophonist") == []


async def test_n28_a_session_that_was_not_to_be_stored_is_told_apart(store: Store) -> None:
    await session(store, "stored")
    await session(store, "unstored", metadata={UNSTORED: False})
    assert await store.prune_unreachable(before=LATER, unstored=True, besides=["unstored"]) == []
    assert await store.prune_unreachable(before=LATER, unstored=True) == ["unstored"]
    assert await alive(store) == ["stored"]


async def test_n28_a_prune_takes_no_branch_that_lives_and_no_parent_of_one(store: Store) -> None:
    await session(store, "parent")
    await store.derive_session("parent", NewSession("branch", key="/b", origin=SessionOrigin.BRANCH))
    await store.derive_session(
        "parent", NewSession("child", origin=SessionOrigin.COMPRESSION), end_parent="compression"
    )
    await store.end_session("child", "over")
    assert await store.prune(before=LATER) == ["child"]
    assert await store.prune_unreachable(before=LATER) == []
    assert await alive(store) == ["branch"]
    assert texts(await store.history("branch")) == [SECRET]


async def test_n28_erasing_takes_every_copy_and_nothing_else(store: Store) -> None:
    await session(store, "parent")
    await store.derive_session(
        "parent", NewSession("child", origin=SessionOrigin.COMPRESSION), end_parent="compression"
    )
    await store.derive_session("child", NewSession("branch", key="/b", origin=SessionOrigin.BRANCH))
    await store.set_route("/b", "branch")
    await lead(store, "x", "child")
    await store.save_response(response("resp_1", "branch"))
    await store.create_session(NewSession("other"))
    await store.append("other", [said("something else")])
    assert await store.with_copies(["child"]) == ["branch", "child", "parent"]
    assert await store.erase(["child", "never there"]) == ["branch", "child", "parent"]
    assert await alive(store) == ["other"]
    assert await store.search("xylophonist") == []
    assert await store.search("something") != []
    assert await store.route("/b") is None
    assert await store.get_conversation("x") is None
    assert await store.get_response("resp_1") is None
    assert await store.erase(["child"]) == []


async def test_n28_an_owner_is_erased_with_what_no_session_holds(store: Store) -> None:
    for owner in ("anna", "bert"):
        await store.create_session(NewSession(f"of_{owner}", owner=owner))
        await store.save_response(response(f"resp_{owner}", f"of_{owner}", owner=owner))
        await lead(store, "slug", f"of_{owner}", owner)
        await store.remember(IdempotencyRecord("key", owner, "", 200, (), b"xylophonist", LATER))
    await store.erase([each.id for each in await store.list_sessions(SessionQuery(owner="anna"))])
    await store.erase_owner("anna")
    for owner, left in (("anna", False), ("bert", True)):
        assert (await store.get_session(f"of_{owner}") is not None) == left
        assert (await store.get_response(f"resp_{owner}", owner=owner) is not None) == left
        assert (await store.get_conversation("slug", owner=owner) is not None) == left
        assert (await store.recall("key", owner=owner) is not None) == left


@pytest.mark.parametrize(("way", "trace"), [("erase", "xylophon"), ("prune", SECRET)])
async def test_n28_deleted_text_is_in_no_file_although_the_store_is_open(place: Place, way: str, trace: str) -> None:
    """Of what was erased not even a word of it, as the index keeps it."""
    async with place.opened() as store:
        await session(store, "kept")
        for number in range(200):
            await store.append("kept", [said(f"filler {number} " + "y" * 300)])
        await session(store, "gone")
        await store.rewrite_transcript("kept", [said("only this")])
        await store.end_session("kept", "over")
        if way == "erase":
            await store.erase(["gone", "kept"])
        else:
            await store.prune(before=LATER)
            await store.prune_unreachable(before=LATER)
        await eventually(lambda: not logs_in(place.folder), "the log is to be emptied")
        assert files_with(place.folder, trace) == []


def logs_in(folder: Path) -> list[Path]:
    """Logs with something in them."""
    return [file for file in folder.glob("*-wal") if file.stat().st_size]


def files_with(folder: Path, trace: str) -> list[str]:
    """Another process looks: ours would drop the store's locks by it."""
    line = ["grep", "-rla", trace, str(folder)]
    return subprocess.run(line, check=False, capture_output=True, text=True).stdout.splitlines()


async def test_n27_what_is_brought_in_was_last_active_when_it_was(place: Place, tmp_path: Path) -> None:
    async with place.opened() as store:
        await store.create_session(NewSession("one", created_at=100.0))
        place.clock.now = 200.0
        await store.append("one", [said("long ago")])
        lines = [line async for line in lines_out(store, await store.list_sessions())]
    for name, given in (("one", lines), ("bare", lines[1:])):
        other = Place(place.kind, place.opening, tmp_path / f"other-{name}")
        async with other.opened() as store:
            for _ in range(2):
                for bundle in bundles(given, name, Brought()):
                    await bring_in(store, bundle, Brought())
            found = await store.get_session(name)
            assert found is not None
            assert found.last_active_at == 200.0
            assert texts(await store.history(name)) == ["long ago"]
            await store.append(name, [said("now")])
            lacking = [*lines, lines[1].replace(b"long ago", b"lacking")]
            for bundle in bundles(lacking if name == "one" else lacking[1:], name, Brought()):
                await bring_in(store, bundle, Brought())
            found = await store.get_session(name)
            assert found is not None
            assert found.last_active_at == other.clock.now, "what was said since counts, the bringing in does not"
