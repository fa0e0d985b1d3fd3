"""A working directory is canonical and allowed before it becomes part of a key."""

from pathlib import Path

import pytest

from ostler.pool.errors import BadDirectory
from ostler.pool.keys import TransportKey, canonical_cwd


def test_e03_one_directory_has_one_name(tmp_path: Path) -> None:
    real = tmp_path / "a"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    names = [str(real), f"{real}/", str(link), f"{real}/../a", f"{tmp_path}/./link/"]
    assert {canonical_cwd(name) for name in names} == {str(real.resolve())}


def test_e02_keys_that_differ_in_one_part_are_different() -> None:
    key = TransportKey("demo", "demo", "/r")
    others = {
        TransportKey("other", "demo", "/r"),
        TransportKey("demo", "other", "/r"),
        TransportKey("demo", "demo", "/s"),
    }
    assert key == TransportKey("demo", "demo", "/r")
    assert key not in others
    assert len(others) == 3


def test_m06_a_relative_or_missing_directory_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for bad in ["", "relative/path", ".", str(tmp_path / "missing"), str(file), "/\0", "~"]:
        with pytest.raises(BadDirectory) as caught:
            canonical_cwd(bad)
        assert caught.value.cwd == bad


def test_e04_only_directories_under_a_root_are_allowed(tmp_path: Path) -> None:
    root, sibling, outside = tmp_path / "root", tmp_path / "root2", tmp_path / "out"
    for folder in (root / "in", sibling, outside):
        folder.mkdir(parents=True)
    (root / "leads-out").symlink_to(outside)
    (tmp_path / "alias").symlink_to(root)
    assert canonical_cwd(root / "in", [root]) == str((root / "in").resolve())
    assert canonical_cwd(root, [tmp_path / "alias"]) == str(root.resolve())
    assert canonical_cwd(root / "in" / "..", [root]) == str(root.resolve())
    for bad in [sibling, outside, root / "leads-out", root / "..", tmp_path]:
        with pytest.raises(BadDirectory, match="outside the allowed roots"):
            canonical_cwd(bad, [root])


def test_e04_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to(tmp_path / "y")
    (tmp_path / "y").symlink_to(tmp_path / "x")
    with pytest.raises(BadDirectory):
        canonical_cwd(tmp_path / "x")


def test_a_root_that_leads_in_a_circle_allows_nothing(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(BadDirectory, match="outside the allowed roots"):
        canonical_cwd(tmp_path, [tmp_path / "circle"])
