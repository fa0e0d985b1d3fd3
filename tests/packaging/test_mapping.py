"""Every package in the tree is in the wheel: one that pyproject.toml forgets is missing only for users."""

import subprocess
import tomllib
from pathlib import Path

from tests.support.rooms import ROOMS

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("tests", "tools", "bench", "docs", "examples", "requirements", "typings", ".ci")


def packages_on_disk() -> set[str]:
    return {
        "ostler." + ".".join(init.parent.relative_to(ROOT).parts)
        for room in ROOMS
        for init in (ROOT / room).rglob("__init__.py")
    }


def test_every_package_is_mapped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["setuptools"]["packages"]) == packages_on_disk()


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_the_rooms_are_the_top_level() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    folders = {line.partition("/")[0] for line in listed.splitlines() if "/" in line}
    assert folders == {*ROOMS, *BESIDE}
    assert [room for room in ROOMS if not (ROOT / "typings" / "ostler" / room).is_symlink()] == []


def test_no_lock_file_names_a_host() -> None:
    locks = [*ROOT.glob("requirements/*.txt"), *ROOT.glob("tests/**/package-lock.json")]
    assert locks
    assert [str(lock.relative_to(ROOT)) for lock in locks if "://" in lock.read_text()] == []
