"""A resume brings store and mirror in line, whichever of them knows less."""

from ostler.gateway.model.records import NewSession
from ostler.gateway.stores.healing import Healed, heal
from ostler.gateway.stores.mirror import Mirror
from tests.support.stores import Place, said, texts, with_turns


async def test_h05_what_only_the_mirror_has_is_put_back_once_in_order(place: Place) -> None:
    mirror = Mirror(place.folder / "mirrors")
    mirror.append("sess_p", [said(f"m{n}") for n in range(200)])
    async with place.opened() as store:
        await store.create_session(NewSession("sess_p"))
        assert await heal(store, mirror, "sess_p") == Healed(200, 0, rewritten=False)
        ids = await store.append("sess_p", [said("u"), said("a", "assistant")])
        mirror.append("sess_p", (await store.history("sess_p"))[-len(ids) :])
    async with place.opened() as store:
        assert await heal(store, mirror, "sess_p") == Healed(0, 0, rewritten=False)
        spoken = texts(await store.history("sess_p"))
        assert spoken == [*(f"m{n}" for n in range(200)), "u", "a"]
        assert [message.text for message in mirror.read("sess_p").messages] == spoken


async def test_h05_a_crash_after_putting_back_does_not_put_back_twice(place: Place) -> None:
    mirror = Mirror(place.folder / "mirrors")
    mirror.append("sess_p", [said("old")])
    before = mirror.path("sess_p").read_bytes()
    async with place.opened() as store:
        await store.create_session(NewSession("sess_p"))
        await store.append("sess_p", [said("new")])
        await heal(store, mirror, "sess_p")
        mirror.path("sess_p").write_bytes(before)
        assert await heal(store, mirror, "sess_p") == Healed(0, 0, rewritten=True)
        assert texts(await store.history("sess_p")) == ["old", "new"]
        session = await store.get_session("sess_p")
        assert session is not None
        assert session.message_count == 2


async def test_h17_an_undone_turn_does_not_come_back_from_the_mirror(place: Place) -> None:
    mirror = Mirror(place.folder / "mirrors")
    async with place.opened() as store:
        ids = await with_turns(store, "sess_p", 2)
        mirror.append("sess_p", await store.history("sess_p"))
        await store.deactivate_from("sess_p", ids[2])
    async with place.opened() as store:
        assert await heal(store, mirror, "sess_p") == Healed(0, 0, rewritten=True)
        assert texts(await store.history("sess_p")) == ["u1", "a1"]
        assert [message.text for message in mirror.read("sess_p").messages] == ["u1", "a1"]


async def test_rh5_unreadable_lines_are_reported_and_a_session_without_mirror_gets_one(place: Place) -> None:
    mirror = Mirror(place.folder / "mirrors")
    async with place.opened() as store:
        await with_turns(store, "sess_p", 1)
        assert await heal(store, mirror, "sess_p") == Healed(0, 0, rewritten=True)
        with mirror.path("sess_p").open("ab") as file:
            file.write(b"garbage\n")
        assert await heal(store, mirror, "sess_p") == Healed(0, 1, rewritten=True)
        assert await heal(store, mirror, "sess_p") == Healed(0, 0, rewritten=False)
