"""What an agent asks permission for: where its edits lie, what a person is shown. The requests are those of agents."""

import os
from pathlib import Path

import pytest

from ostler.pool.events import PermissionAsked
from ostler.pool.permission_facts import PATHS_AT_MOST, details, inside, is_edit, paths_of
from ostler.wire.json import JsonObject


def edit(path: str, **more: object) -> PermissionAsked:
    diff = {"type": "diff", "path": path, "oldText": "a\n", "newText": "b\n"}
    call: JsonObject = {"kind": "edit", "content": [diff], "locations": [{"path": path}], **more}
    return PermissionAsked("p1", "Write it", [], call)


@pytest.mark.parametrize(
    ("path", "is_inside"),
    [
        ("work/file", True),
        ("work/new/deep/file", True),
        ("work/link-inside/file", True),
        ("work", False),
        ("elsewhere/file", False),
        ("work/../elsewhere/file", False),
        ("work/link-outside/file", False),
        ("work/.git/hooks/pre-commit", False),
        ("work/sub/.claude/settings.json", False),
        ("working/file", False),
        ("work/\0", False),
    ],
)
def test_n43_an_edit_is_inside_only_where_its_file_really_lies(path: str, is_inside: bool, tmp_path: Path) -> None:
    (tmp_path / "work/real").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work/link-inside").symlink_to("real")
    (tmp_path / "work/link-outside").symlink_to("../elsewhere")
    assert inside([os.path.join(tmp_path, path)], str(tmp_path / "work")) is is_inside  # noqa: PTH118 - it would mend
    assert not inside([str(tmp_path / "work/file"), str(tmp_path / "elsewhere/file")], str(tmp_path / "work"))
    assert not inside([], str(tmp_path / "work"))


def test_n43_only_a_request_that_says_so_is_an_edit() -> None:
    assert is_edit(edit("/srv/file"))
    assert not is_edit(edit("/srv/file", kind="execute"))
    assert not is_edit(PermissionAsked("p1", "Write /srv/file", [], {"kind": "edit"}))
    many: list[JsonObject] = [{"path": f"/srv/{number}"} for number in range(PATHS_AT_MOST + 1)]
    assert not is_edit(edit("/srv/file", locations=many)), "files behind the last that is read could lie anywhere"


def test_n43_every_file_that_is_named_counts() -> None:
    asked = edit("/srv/file", locations=[{"path": "/etc/passwd"}, {"path": "/srv/file"}, {"line": 1}, None])
    assert paths_of(asked) == ["/etc/passwd", "/srv/file"]


def test_n43_a_person_is_shown_the_command_the_paths_and_the_diff() -> None:
    shown = details(edit("/srv/file"))
    assert (shown["kind"], shown["paths"]) == ("edit", ["/srv/file"])
    assert "-a\n+b" in shown["diff"]
    command = PermissionAsked("p1", "rm -r x", [], {"kind": "execute"})
    assert details(command) == {"kind": "execute", "command": "rm -r x"}
    assert details(PermissionAsked("p1", "x", [], {"rawInput": {"command": "ls"}})) == {"command": "ls"}
    assert details(PermissionAsked("p1", "x", [], {"kind": "other"})) == {}
    long = details(edit("/srv/file", content=[{"type": "diff", "path": "/f", "oldText": "", "newText": "x" * 50_000}]))
    assert "become 50000" in long["diff"]
