"""Installs of real agents: named by their lock, whole or absent, made once."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tools.agents.pins import PINS, InstallFailed, NpmPin, Pin, install
from tools.clients.pins import CLIENTS


@dataclass(frozen=True)
class PaperPin(Pin):
    """A pin whose installer writes one file."""

    folder: Path = field(default_factory=Path)
    fails: bool = False
    fills: list[Path] = field(default_factory=list)

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def version(self) -> str:
        return "1.2.3"

    def fill(self, folder: Path) -> None:
        self.fills.append(folder)
        (folder / "half").touch()
        if self.fails:
            raise InstallFailed("no such registry")


@pytest.fixture
def pin(tmp_path: Path) -> PaperPin:
    (tmp_path / "lock").write_text("one")
    return PaperPin("paper", tmp_path)


def nothing(_text: str) -> None:
    """Progress that nobody reads."""


def test_an_install_is_made_once(pin: PaperPin, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = install(pin, cache, nothing)
    assert install(pin, cache, nothing) == first
    assert (first / "half").exists()
    assert len(pin.fills) == 1


def test_another_lock_is_another_install(pin: PaperPin, tmp_path: Path) -> None:
    first = install(pin, tmp_path / "cache", nothing)
    pin.lock.write_text("two")
    assert install(pin, tmp_path / "cache", nothing) != first


def test_a_failed_install_leaves_nothing(pin: PaperPin, tmp_path: Path) -> None:
    broken = PaperPin("paper", tmp_path, fails=True)
    with pytest.raises(InstallFailed, match="no such registry"):
        install(broken, tmp_path / "cache", nothing)
    assert list((tmp_path / "cache").iterdir()) == []
    assert install(pin, tmp_path / "cache", nothing).is_dir()


def test_losing_the_race_for_a_place_is_no_failure(pin: PaperPin, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    class Slow(PaperPin):
        def fill(self, folder: Path) -> None:
            super().fill(folder)
            install(pin, cache, nothing)

    assert install(Slow("paper", tmp_path), cache, nothing) == pin.home(cache)
    assert [path.name for path in cache.iterdir()] == [pin.home(cache).name]


@pytest.mark.parametrize("pin", [*PINS, *CLIENTS], ids=lambda pin: pin.provider)
def test_a_lock_has_the_pinned_version_by_hash_and_names_no_host(pin: Pin) -> None:
    lock = pin.lock.read_text()
    assert "://" not in lock
    assert pin.version in lock
    assert re.fullmatch(r"\d+\.\d+\.\d+", pin.version)


@pytest.mark.parametrize(
    "pin", [pin for pin in (*PINS, *CLIENTS) if isinstance(pin, NpmPin)], ids=lambda pin: pin.provider
)
def test_what_npm_may_install_is_locked_by_hash(pin: NpmPin) -> None:
    packages = json.loads(pin.lock.read_text())["packages"]
    loose = [place for place, package in packages.items() if place and "integrity" not in package]
    assert [place for place in loose if packages[place].get("os") != ["none"]] == []
