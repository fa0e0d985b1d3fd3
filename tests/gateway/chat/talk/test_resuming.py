"""/resume: whose sessions, by which name, and what becomes of the one that is left."""

import pytest

from ostler.gateway.model.observers import SwitchReason
from tests.support.chats import Chat, ended, texts
from tests.support.served import Served
from tests.support.talks import Heard, Since, rows, talked

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def titled(chat: Chat, title: str, *words: str) -> str:
    """A session with a title, which is left for a new one."""
    session = await talked(chat, *(words or ("t1",)))
    assert title in await chat.text(f"/title {title}")
    await chat.said("/new")
    return session


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("Garden Plan", "Garden Plan"),
        ("Garden Two", '"Garden Two"'),
        ("Garden Three", "[Garden Three]"),
        ("Garden Four", "'Garden Four'"),
        ("Garden Five", "“Garden Five”"),
        ("Garden Six", "  Garden   Six "),
        ("7", '"7"'),
    ],
)
async def test_b27_h10_resume_by_title_switches_and_says_what_is_there(
    chat: Chat, served: Served, name: str, typed: str
) -> None:
    target = await talked(chat, "g1", "g2")
    await chat.said(f"/title {name}")
    await chat.said("/new")
    left = await talked(chat, "p1")
    said = await chat.said(f"/resume {typed}")
    assert name in said["text"]
    assert "2 messages of yours" in said["text"]
    assert said["session_id"] == chat.routed() == target
    assert (ended(served, left), ended(served, target)) == ("session_switch", None)
    before = rows(served, left)
    assert await chat.text("!recall") == "g1\ng2"
    assert rows(served, left) == before
    assert len(rows(served, target)) == 6


@pytest.mark.parametrize(("many", "word"), [(0, "no messages"), (1, "1 message "), (3, "3 messages")])
async def test_b27_the_reply_counts_what_the_person_said(chat: Chat, many: int, word: str) -> None:
    await chat.said("/new")
    await talked(chat, *(f"m{number}" for number in range(many)))
    title = f"counted {many}"
    await chat.said(f"/title {title}")
    await chat.said("/new")
    assert word in await chat.text(f"/resume {title}")


async def test_b06_b26_rh08_memory_knows_the_target_before_the_first_question(
    chat: Chat, served: Served, heard: Heard, since: Since
) -> None:
    target = await titled(chat, "b06", "t1", "t2")
    left = await talked(chat, "p1")
    before = len(heard.told)
    await chat.said("/resume b06")
    assert heard.told[before:] == [("switched", target, left, SwitchReason.RESUME)]
    await chat.said("t3")
    assert "t1" in since.prompts[-1]
    assert "t2" in since.prompts[-1]
    assert "p1" not in since.prompts[-1]


async def test_b28_a_title_stands_for_its_newest_continuation(chat: Chat) -> None:
    sessions = {}
    for title in ("Lin", "Lin #2", "Lin #10", "Lin%", "Lin_"):
        sessions[title] = await titled(chat, title)
    for typed, found in (("Lin", "Lin #10"), ("Lin #2", "Lin #2"), ("Lin%", "Lin%"), ("Lin_", "Lin_")):
        await chat.said("/new")
        assert (await chat.said(f"/resume {typed}"))["session_id"] == sessions[found], typed


async def test_b29_alone_it_lists_the_titled_ones_and_takes_their_numbers(chat: Chat, served: Served) -> None:
    assert "No session has a title" in await chat.text("/resume")
    await talked(chat, "untitled")
    await chat.said("/new")
    sessions = [await titled(chat, f"Row {number}", f"about {number}") for number in range(12)]
    lines = (await chat.text("/resume")).splitlines()[:-1]
    assert [line.partition(" (")[0] for line in lines] == [f"{place}. Row {12 - place}" for place in range(1, 11)]
    assert lines[0].endswith(": about 11")
    here = chat.routed()
    for wrong in ("0", "11", "-1", "99999999999999999999"):
        assert "out of range" in await chat.text(f"/resume {wrong}")
        assert chat.routed() == here
    await chat.said("/resume 2")
    assert chat.routed() == sessions[10]
    # The numbers stay those of the list that was shown, whatever was talked about since.
    await chat.said("newest now")
    await chat.said("/resume 1")
    assert chat.routed() == sessions[11]


async def test_b30_h09_h11_an_unknown_or_the_present_session_changes_nothing(
    chat: Chat, served: Served, heard: Heard, since: Since
) -> None:
    session = await talked(chat, "p1")
    await chat.said("/title b30")
    told = len(heard.told)
    for typed, word in (("b30", "already"), (session, "already"), ("nothing like it", "No session of yours")):
        assert word in await chat.text(f"/resume {typed}")
        assert (chat.routed(), ended(served, session)) == (session, None)
    assert heard.told[told:] == []
    await chat.said("p2")
    assert len(since.seats) == 1


async def test_h09_by_id_and_by_its_unique_beginning(chat: Chat, served: Served) -> None:
    first = await talked(chat, "f1")
    await chat.said("/new")
    second = await talked(chat, "s1")
    await chat.said(f"/resume {first}")
    assert chat.routed() == first
    shared = next(place for place, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
    await chat.said(f"/resume {second[: shared + 1]}")
    assert chat.routed() == second
    assert "beginning of 2 sessions" in await chat.text(f"/resume {first[:shared]}")
    assert chat.routed() == second


async def test_b31_another_chat_is_refused_and_not_listed(chat: Chat, served: Served) -> None:
    other = Chat(served, f"{chat.key} other")
    theirs = await titled(other, "Theirs")
    mine = await talked(chat, "mine")
    for typed in ("Theirs", theirs, theirs[:20]):
        said = await chat.text(f"/resume {typed}")
        assert "No session of yours" in said
        assert chat.routed() == mine
    assert "Theirs" not in await chat.text("/resume")
    assert "Theirs" not in await chat.text("/sessions")
    assert "Nothing is found" in await chat.text("/sessions t1")
    assert ended(served, theirs) == "session_reset"


async def test_a15_h10_a_resumed_session_is_written_to_from_then_on(chat: Chat, served: Served) -> None:
    target = await titled(chat, "a15", "t1")
    left = await talked(chat, "p1")
    await chat.said("/resume a15")
    for number in range(4):
        await chat.said(f"n{number}")
    assert chat.routed() == target
    assert texts(served, left) == [("user", "p1"), ("assistant", "echo: p1")]
    assert await chat.text("!recall") == "t1\nn0\nn1\nn2\nn3"


async def test_b07_d16_branch_copies_links_and_can_be_left_again(
    chat: Chat, served: Served, heard: Heard, since: Since
) -> None:
    original = await talked(chat, "o1", "o2")
    await chat.said("/title Root")
    before = len(heard.told)
    said = await chat.said("/branch Other Way")
    branch = chat.routed()
    assert branch is not None
    assert said["session_id"] == branch != original
    assert heard.told[before:] == [("switched", branch, original, SwitchReason.BRANCH)]
    assert served.rows("select parent_id, origin, title from sessions where id = ?", branch) == [
        (original, "branch", "Other Way")
    ]
    assert texts(served, branch) == texts(served, original)
    assert await chat.text("b3\n!recall") == "echo: b3\no1\no2"
    assert len(since.seats) == 2
    assert len(texts(served, original)) == 4
    await chat.said("/resume Root")
    assert await chat.text("!recall") == "o1\no2"
    assert chat.routed() == original


async def test_d16_h08_branch_without_history_or_with_a_taken_name_is_refused(
    chat: Chat, served: Served, heard: Heard
) -> None:
    assert "no history" in await chat.text("/branch")
    session = await talked(chat, "o1")
    await chat.said("/title Taken Name")
    told = len(heard.told)
    ((count,),) = served.rows("select count(*) from sessions")
    assert session in await chat.text("/branch Taken Name")
    assert (chat.routed(), heard.told[told:]) == (session, [])
    assert served.rows("select count(*) from sessions") == [(count,)]
    await chat.said("/branch")
    assert "Taken Name (branch)" in await chat.text("/title")
