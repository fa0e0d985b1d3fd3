"""The mirror: guarded, atomic, private, patient; and what healing decides."""

import os
import stat
from pathlib import Path

import pytest

from ostler.gateway.model.errors import BadSessionId
from ostler.gateway.model.records import MessageRecord, NewMessage
from ostler.gateway.stores.healing import merged
from ostler.gateway.stores.mirror import Mirror


def lines(*words: str) -> list[NewMessage]:
    return [NewMessage("user", ({"type": "input_text", "text": word},), word, None, 1.0) for word in words]


def stored(*words: str, active: bool = True) -> list[MessageRecord]:
    return [
        MessageRecord(n, "sess_p", "user", ({"type": "input_text", "text": word},), word, None, 1.0, active, False)
        for n, word in enumerate(words)
    ]


def said(mirror: Mirror) -> list[str]:
    return [message.text for message in mirror.read("sess_p").messages]


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path / "mirrors")


@pytest.mark.parametrize("offered", [0, 2, 199])
def test_h06_a_blind_save_never_makes_it_shorter(mirror: Mirror, offered: int) -> None:
    mirror.rewrite("sess_p", lines(*map(str, range(200))))
    before = mirror.path("sess_p").read_bytes()
    assert not mirror.save("sess_p", lines(*map(str, range(offered))))
    assert mirror.path("sess_p").read_bytes() == before


@pytest.mark.parametrize("offered", [200, 201])
def test_h06_a_save_of_as_many_or_more_is_written(mirror: Mirror, offered: int) -> None:
    mirror.rewrite("sess_p", lines(*map(str, range(200))))
    assert mirror.save("sess_p", lines(*(f"new {n}" for n in range(offered))))
    assert said(mirror)[-1] == f"new {offered - 1}"


@pytest.mark.parametrize("there", [None, b"", b"\xff\xfe not json\n{}\n[]\n"])
def test_h06_a_missing_or_unusable_file_is_written(mirror: Mirror, there: bytes | None) -> None:
    if there is not None:
        mirror.folder.mkdir()
        mirror.path("sess_p").write_bytes(there)
    assert mirror.save("sess_p", lines("a", "b"))
    assert said(mirror) == ["a", "b"]


def test_h07_only_a_rewrite_shortens(mirror: Mirror) -> None:
    mirror.append("sess_p", lines("a", "b", "c"))
    mirror.rewrite("sess_p", lines("a"))
    assert said(mirror) == ["a"]
    assert [path.name for path in mirror.folder.iterdir()] == ["sess_p.jsonl"]


@pytest.mark.parametrize("ident", ["../x", "", "a/b", ".x", "a\x00b"])
def test_h08_an_id_cannot_lead_out_of_the_folder(mirror: Mirror, ident: str) -> None:
    for act in (mirror.path, mirror.read, mirror.remove):
        with pytest.raises(BadSessionId):
            act(ident)


def test_h08_each_session_has_its_own_file(mirror: Mirror) -> None:
    mirror.append("sess_p", lines("p"))
    mirror.append("sess_q", lines("q"))
    mirror.rewrite("sess_q", lines())
    assert said(mirror) == ["p"]
    assert mirror.session_ids() == ["sess_p", "sess_q"]
    mirror.remove("sess_q")
    assert mirror.session_ids() == ["sess_p"]


def test_rh5_unreadable_lines_are_skipped_and_counted_and_a_torn_one_swallows_no_other(mirror: Mirror) -> None:
    mirror.append("sess_p", lines("a"))
    with mirror.path("sess_p").open("ab") as file:
        file.write(b'{"role": 5}\n{"role": "user", "items": [], "te')
    mirror.append("sess_p", lines("b"))
    reading = mirror.read("sess_p")
    assert [message.text for message in reading.messages] == ["a", "b"]
    assert reading.unreadable == 2


def test_c26_mirrors_are_readable_by_their_owner_only(mirror: Mirror) -> None:
    before = os.umask(0)
    try:
        mirror.append("sess_p", lines("a"))
        mirror.rewrite("sess_q", lines("a"))
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (mirror.folder, *sorted(mirror.folder.iterdir()))]
    assert modes == [0o700, 0o600, 0o600]


@pytest.mark.parametrize(
    ("mirrored", "active", "undone", "transcript", "missing"),
    [
        ("abc", "", "", "abc", 3),
        ("abc", "abc", "", "abc", 0),
        ("abc", "ab", "", "abc", 1),
        ("abc", "ab", "c", "ab", 0),
        ("abc", "c", "", "abc", 2),
        ("abc", "de", "", "abcde", 3),
        ("abcd", "adx", "", "abcdx", 2),
        ("aa", "a", "", "aa", 1),
        ("ab", "", "ab", "", 0),
        ("", "ab", "", "ab", 0),
    ],
)
def test_h05_h17_what_the_store_never_had_is_put_in_its_place_once(
    mirrored: str, active: str, undone: str, transcript: str, missing: int
) -> None:
    merge = merged(lines(*mirrored), [*stored(*active), *stored(*undone, active=False)])
    assert "".join(message.text for message in merge.transcript) == transcript
    assert len(merge.missing) == missing
    again = merged(merge.transcript, [*stored(*transcript), *stored(*undone, active=False)])
    assert again.missing == ()
