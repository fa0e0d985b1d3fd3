"""Which version of which agent CLI, and where it is installed.

Rules:
- One folder per provider under `npm/` or `pip/`, named like the provider; its manifest is the only place a version is
  written, its lock file the only thing that is installed.
- An install is named by provider, version and lock hash, so that it never has to be updated, only made or not.
- It appears whole or not at all: it is made beside its place and renamed into it. A warm run starts nothing.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
DEADLINE = 600.0


class InstallFailed(Exception):
    """The installer ended with an error; the text holds its last lines."""


@dataclass(frozen=True)
class Pin(ABC):
    """One agent at one version."""

    provider: str

    @property
    @abstractmethod
    def manifest(self) -> Path: ...

    @property
    @abstractmethod
    def lock(self) -> Path: ...

    @property
    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def fill(self, folder: Path) -> None:
        """Install into an empty folder, or raise `InstallFailed`."""

    def home(self, cache: Path) -> Path:
        """Where this very install lives."""
        digest = hashlib.sha256(self.lock.read_bytes()).hexdigest()[:12]
        return cache / f"{self.provider}-{self.version}-{digest}"


@dataclass(frozen=True)
class NpmPin(Pin):
    """Installed by `npm ci` with install scripts off, but for the one package whose script puts its binary in place."""

    scripted: str | None = None
    shelf: Path = HERE / "npm"
    """Where the folders of manifests are."""
    retries: int = 2
    """Of each download; npm waits ten seconds before the first one, a minute before the next."""

    @property
    def manifest(self) -> Path:
        return self.shelf / self.provider / "package.json"

    @property
    def lock(self) -> Path:
        return self.manifest.with_name("package-lock.json")

    @property
    def version(self) -> str:
        dependencies: dict[str, str] = json.loads(self.manifest.read_text())["dependencies"]
        return next(iter(dependencies.values()))

    def fill(self, folder: Path) -> None:
        for source in (self.manifest, self.lock):
            shutil.copy(source, folder)
        run(
            [
                "npm",
                "ci",
                "--omit=dev",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                f"--fetch-retries={self.retries}",
            ],
            folder,
        )
        if self.scripted is not None:
            run(["npm", "rebuild", self.scripted], folder)


@dataclass(frozen=True)
class PipPin(Pin):
    """Installed by pip into a venv of its own, every file checked against its hash."""

    @property
    def manifest(self) -> Path:
        return HERE / "pip" / self.provider / "requirements.in"

    @property
    def lock(self) -> Path:
        return self.manifest.with_name("requirements.txt")

    @property
    def version(self) -> str:
        found = re.search(r"==([\w.]+)", self.manifest.read_text())
        assert found is not None, f"{self.manifest} pins no version"
        return found.group(1)

    def fill(self, folder: Path) -> None:
        run([sys.executable, "-m", "venv", "venv"], folder)
        pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--require-hashes", "-r", str(self.lock)], folder)


# The slowest first, so that the last one to be tested is a short one.
PINS: tuple[Pin, ...] = (
    NpmPin("opencode-acp", scripted="opencode-ai"),
    PipPin("hermes-acp"),
    NpmPin("qwen-acp"),
    NpmPin("gemini-acp"),
    NpmPin("claude-acp"),
    NpmPin("codex-acp"),
    NpmPin("codex-app-server"),
)


def run(command: Sequence[str], folder: Path) -> None:
    """Run an installer to its end; its output matters only when it fails."""
    try:
        done = subprocess.run(
            command, cwd=folder, timeout=DEADLINE, check=False, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallFailed(str(error)) from error
    if done.returncode != 0:
        tail = " | ".join(done.stdout.strip().splitlines()[:4])
        raise InstallFailed(f"{command[0]} ended with {done.returncode}: {tail}")


def install(pin: Pin, cache: Path, say: Callable[[str], None]) -> Path:
    """The pin's folder, made if it is not there."""
    home = pin.home(cache)
    if home.is_dir():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=f".{pin.provider}-") as scratch:
        folder = Path(scratch) / "install"
        folder.mkdir()
        say(f"installing {pin.provider} {pin.version}")
        pin.fill(folder)
        try:
            folder.rename(home)
        except OSError:  # another run was faster; its install is the same
            if not home.is_dir():
                raise
    say(f"installed {pin.provider} {pin.version}")
    return home


def cache_folder() -> Path:
    """Where installs are kept between runs."""
    chosen = os.environ.get("OSTLER_AGENT_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ostler" / "agents"
