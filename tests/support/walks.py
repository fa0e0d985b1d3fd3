"""What the random walks of pure machines share: invariants that have a name, and seeded defects that they must see.

A mutant is a whole copy of a package, or of one module, under a name that is not its own, so its enums and records are
its own too. All have the same name: nobody finds them by it once they are loaded, and what is alike is compiled once.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

NOTES = Path(__file__).resolve().parents[2] / ".cache" / "mutants"
COPY = "mutated"


class BrokenInvariantError(AssertionError):
    """An invariant does not hold."""


def require(holds: object, what: str, *facts: object) -> None:
    if not holds:
        raise BrokenInvariantError(f"{what}: {facts}")


@dataclass(frozen=True)
class Mutant:
    """One patch of one module; `seen_by`: how the message of the invariant that it breaks begins."""

    name: str
    module: str
    old: str
    new: str
    seen_by: str = ""


class _Copy(MetaPathFinder, Loader):
    """Imports patched sources under another name."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != COPY and not fullname.startswith(COPY + "."):
            return None
        return ModuleSpec(fullname, self, is_package=fullname == COPY)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.removeprefix(COPY).lstrip(".") or "__init__"
        exec(_compiled(self.sources[name], f"<{module.__name__}>"), module.__dict__)


@cache
def _compiled(source: str, name: str) -> CodeType:
    return compile(source, name, "exec")


def load(mutant: Mutant, original: ModuleType) -> ModuleType:
    """The package, or the single module, with the patch."""
    home = Path(str(original.__file__))
    package = home.name == "__init__.py"
    files = {path.stem: path for path in home.parent.glob("*.py")} if package else {"__init__": home}
    sources = {name: path.read_text() for name, path in files.items()}
    patched = mutant.module if package else "__init__"
    assert sources[patched].count(mutant.old) == 1, f"{mutant.name} does not apply exactly once"
    sources[patched] = sources[patched].replace(mutant.old, mutant.new)
    finder = _Copy({name: text.replace(original.__name__, COPY) for name, text in sources.items()})
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(COPY)
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
            del sys.modules[name]


def first_broken(walk: Callable[[int], object], name: str, worlds: int) -> str | None:
    """Walk the worlds until an invariant is broken, and return its message.

    Which world sees a defect is known only by walking them, and some are seen by one in sixty. So each run notes which
    it was, and the next one begins there: a note that is wrong costs time only.
    """
    note = NOTES / name
    for seed in _seeds(note, worlds):
        try:
            walk(seed)
        except AssertionError as broken:
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(str(seed))
            return str(broken)
    return None


def _seeds(note: Path, worlds: int) -> Iterator[int]:
    first = 0
    with suppress(FileNotFoundError, ValueError):
        first = int(note.read_text())
    yield first % worlds
    yield from (seed for seed in range(worlds) if seed != first % worlds)
