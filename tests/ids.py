"""Which scenarios have a test: `python -m tests.ids [--strict]`.

Rules:
- A test proves the scenarios whose ids stand in its name, two digits each: `test_a01_a10_...`, `test_c03_c06_...`.
- The scenarios are listed here, and nowhere else; a name with an id that is not listed is an error too.
- `--strict` makes a missing one an error: exit code 1.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent
GROUPS = {
    "a": (27, "sessions and resets"),
    "b": (34, "memory and switching"),
    "c": (31, "continuity"),
    "d": (21, "transcripts and commands"),
    "e": (28, "the pool"),
    "f": (25, "the bridge and isolation"),
    "g": (13, "flag and telemetry"),
    "h": (20, "resume and data loss"),
}
NAMED = re.compile(r"(?<![a-z0-9])([a-h])(\d\d)(?![0-9])")


def listed() -> list[str]:
    """Every id, in order."""
    return [f"{group}{number:02}" for group, (most, _) in GROUPS.items() for number in range(1, most + 1)]


def ids_in(name: str) -> list[str]:
    """The ids in the name of a test, as far as they stand in front."""
    found = []
    for word in name.removeprefix("test_").split("_"):
        match = NAMED.fullmatch(word)
        if match is None and not re.fullmatch(r"(?:r[a-h]|w|wm|m)\d+[a-z]?", word):
            break
        if match is not None:
            found.append(word)
    return found


def named_tests(folder: Path) -> Iterator[tuple[Path, str]]:
    """(file, name) of every test function."""
    for file in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield file, node.name


def proven(tests: Iterable[tuple[Path, str]]) -> dict[str, list[str]]:
    """By id, the tests that carry it."""
    found: dict[str, list[str]] = {}
    for file, name in tests:
        for ident in ids_in(name):
            found.setdefault(ident, []).append(f"{file.name}::{name}")
    return found


def report(found: dict[str, list[str]]) -> Iterator[str]:
    """A line for each group, and what is missing in it."""
    for group, (most, text) in GROUPS.items():
        wanted = [ident for ident in listed() if ident.startswith(group)]
        missing = [ident for ident in wanted if ident not in found]
        gaps = f"  missing: {' '.join(missing)}" if missing else ""
        yield f"{group.upper()}  {most - len(missing):>2}/{most:<3} {text}{gaps}"


def main() -> int:
    """Print the coverage."""
    parser = argparse.ArgumentParser(prog="python -m tests.ids", description=__doc__)
    parser.add_argument("--strict", action="store_true", help="exit with 1 where one is missing")
    parser.add_argument("--tests", action="store_true", help="list the tests of each scenario")
    given = parser.parse_args()
    found = proven(named_tests(TESTS))
    print(*report(found), sep="\n")
    if given.tests:
        print(*(f"{ident}  {test}" for ident in listed() for test in found.get(ident, ())), sep="\n")
    unknown = sorted(set(found) - set(listed()))
    if unknown:
        print(f"named and not listed: {' '.join(unknown)}")
    missing = [ident for ident in listed() if ident not in found]
    return 1 if unknown or (given.strict and missing) else 0


if __name__ == "__main__":
    sys.exit(main())
