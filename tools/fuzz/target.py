"""What can be fuzzed: one module per target in `targets/`, each with a `TARGET`."""

import importlib
import json
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

CORPUS = Path(__file__).parent / "corpus"
FOUND = Path(__file__).parent / "found"


class Subject(Protocol):
    """The thing under attack. It lives as long as the campaign, so that what grows with traffic shows."""

    def take(self, frame: bytes) -> None:
        """Take one mutated frame (no newline promised). Any exception is a finding."""

    def end(self) -> None:
        """Check what must hold when all is over."""


@dataclass(frozen=True)
class Target:
    """A subject and the corpus its frames grow from (`corpus/<corpus>.jsonl`, one document per line)."""

    name: str
    corpus: str
    begin: Callable[[Random], Subject]
    heavy: bool = False
    """Whether each frame costs a request or a process, and memory is not its own to keep flat."""

    def seeds(self) -> list[bytes]:
        """The committed frames."""
        return [line for line in (CORPUS / f"{self.corpus}.jsonl").read_bytes().splitlines() if line.strip()]

    def found(self) -> list[bytes]:
        """Frames that once did harm (`found/<name>.jsonl`, each a JSON text whose characters are its bytes)."""
        file = FOUND / f"{self.name}.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [json.loads(line).encode("latin-1") for line in lines]


def load() -> list[Target]:
    """Every target there is, by name."""
    from tools.fuzz import targets

    found = [
        importlib.import_module(f"{targets.__name__}.{module.name}").TARGET
        for module in pkgutil.iter_modules(targets.__path__)
    ]
    return sorted(found, key=lambda target: target.name)
