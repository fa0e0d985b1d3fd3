"""Session keys, and the line in which what concerns one of them is done."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.gateway.chat.errors import BadKey
from ostler.gateway.chat.session_keys import HTTP, ChatPlace, SessionKey, checked_key, key_of
from ostler.gateway.model.keyed_locks import KeyedLocks

ID = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


def test_a25_ra8_a_group_has_a_session_for_each_user_a_thread_one_for_all() -> None:
    ann, ben = (ChatPlace("slack", "7", user, group=True) for user in ("ann", "ben"))
    assert key_of(ann) != key_of(ben)
    threads = {key_of(ChatPlace("slack", "7", user, group=True, thread="t")) for user in ("ann", "ben")}
    assert len(threads) == 1
    assert key_of(ChatPlace("slack", "7", "ann")) == key_of(ChatPlace("slack", "7"))
    keys = {key_of(ann), key_of(ben), *threads, key_of(ChatPlace("slack", "7"))}
    assert {key.platform for key in keys} == {"slack"}
    assert len(keys) == 4


@given(chat=ID, user=ID, thread=ID, other=ID)
def test_a25_no_two_places_share_a_key(chat: str, user: str, thread: str, other: str) -> None:
    places = [
        ChatPlace("p", chat),
        ChatPlace("p", chat, user, group=True),
        ChatPlace("p", chat, user, thread=thread),
        ChatPlace("q", chat),
        ChatPlace("p", f"{chat}:user:{other}"),
    ]
    assert len({key_of(place).stored for place in places}) == len(places)


@given(owners=st.tuples(ID, ID), texts=st.tuples(ID, ID))
def test_w01a_keys_of_different_owners_are_different(owners: tuple[str, str], texts: tuple[str, str]) -> None:
    first, second = (SessionKey(owner, text) for owner, text in zip(owners, texts, strict=True))
    assert (first.stored == second.stored) == (first == second)


@pytest.mark.parametrize("text", ["", "x" * 257, "a\nb", "a\x00", "..", "a/../b", "\u202e"])
def test_a26_what_cannot_be_a_key_is_refused(text: str) -> None:
    with pytest.raises(BadKey):
        checked_key(text)


@pytest.mark.parametrize(
    ("text", "platform"),
    [("team:alice", HTTP), ("a/b", HTTP), ("telegram:direct:7", "telegram"), ("slack:group:7:user:ann", "slack")],
)
def test_a06_a26_the_platform_of_a_key_is_that_of_the_place_it_was_derived_from(text: str, platform: str) -> None:
    assert checked_key(text).platform == platform


def test_a25_whatever_a_platform_calls_a_chat_has_a_key() -> None:
    key = key_of(ChatPlace("irc", "#a/../b:..", "nick\x00", group=True))
    assert key == checked_key(key.text)
    assert key.platform == "irc"


async def test_a_line_is_first_come_first_served_and_holds_nobody_else_up() -> None:
    locks, order, gate = KeyedLocks(), [], asyncio.Event()

    async def stand(name: str, number: int) -> None:
        async with locks.hold(name):
            if name == "slow":
                await gate.wait()
            order.append((name, number))

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(stand("slow", number))
        await group.create_task(stand("quick", 0))
        assert order == [("quick", 0)]
        gate.set()
    assert order == [("quick", 0), ("slow", 0), ("slow", 1), ("slow", 2)]
    assert len(locks) == 0


async def test_whoever_leaves_a_line_makes_way() -> None:
    locks, held, order = KeyedLocks(), asyncio.Event(), []

    async def stand(number: int) -> None:
        async with locks.hold("k"):
            order.append(number)
            if number == 0:
                await held.wait()

    tasks = [asyncio.ensure_future(stand(number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    held.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 2]
    assert len(locks) == 0
