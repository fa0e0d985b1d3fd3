"""Which scenarios and which failures have a test: `python -m tools.ids [--strict | --failures]`.

Rules:
- A test proves the ids that stand in front in its name, two digits each: `test_a01_a10_...`, `test_w22_c03_...`.
- The scenarios are listed here, the failures in `failures.txt`, and nowhere else; a name with an id that is not listed
  is an error too.
- A name with what is nearly an id (one digit, or several letters behind the digits) is an error: nobody would count it,
  and `pytest -k` would not find it.
- A failure that cannot have a test of its own stands in `EXCEPTIONS` with its reason; one that has both is an error.
- `--strict` makes any missing one an error, `--failures` a missing failure: exit code 1.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
FAILURES = Path(__file__).with_name("failures.txt")
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
ORIGINS = {
    "w": "failures seen in the wild",
    "wm": "failures of the models",
    "m": "failures we measured",
    "n": "failures found by strangers",
}
EXCEPTIONS: Mapping[str, str] = {}
"""By id, why a failure has no test: none at present."""
NAMED = re.compile(r"[a-h]\d\d|wm\d|[wmn]\d\d[a-z]?")
NEARLY = re.compile(r"(?:[a-h]|wm|[wmn])\d+[a-z]*")
PASSED_OVER = re.compile(r"r[a-h]\d+[a-z]?")
"""Ids of older lists, which nobody counts any more."""


def scenarios() -> list[str]:
    """Every id of a scenario, in order."""
    return [f"{group}{number:02}" for group, (most, _) in GROUPS.items() for number in range(1, most + 1)]


def failures() -> dict[str, str]:
    """What goes wrong, by its id, in order."""
    lines = (line.partition(" ") for line in FAILURES.read_text(encoding="utf-8").splitlines() if line[0] != "#")
    return {ident: what for ident, _, what in lines}


def listed() -> list[str]:
    """Every id."""
    return [*scenarios(), *failures()]


def ids_in(name: str) -> list[str]:
    """The ids in the name of a test, as far as they stand in front."""
    found = []
    for word in name.removeprefix("test_").split("_"):
        if NAMED.fullmatch(word):
            found.append(word)
        elif not PASSED_OVER.fullmatch(word):
            break
    return found


def misnamed(tests: Iterable[tuple[Path, str]]) -> list[str]:
    """The tests whose name begins with what was meant as an id and is none, behind any number of good ones."""
    return [f"{file.name}::{name}" for file, name in tests if NEARLY.fullmatch(first_word(name))]


def first_word(name: str) -> str:
    """Of the name of a test, what stands behind its ids."""
    words = name.removeprefix("test_").split("_")
    return next((word for word in words if not NAMED.fullmatch(word) and not PASSED_OVER.fullmatch(word)), "")


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


def missing(found: Mapping[str, Sequence[str]], wanted: Iterable[str]) -> list[str]:
    """Those without a test and without a reason."""
    return [ident for ident in wanted if ident not in found and ident not in EXCEPTIONS]


def report(found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A line for each group, and what is missing in it; then the exceptions."""
    for group, (_, text) in GROUPS.items():
        yield line(group, text, [ident for ident in scenarios() if ident.startswith(group)], found)
    for origin, text in ORIGINS.items():
        yield line(origin, text, [ident for ident in failures() if re.match(r"[a-z]+", ident)[0] == origin], found)  # type: ignore[index] # every id begins with letters
    yield from (f"    {ident} has no test of its own: {reason}" for ident, reason in EXCEPTIONS.items())


def line(group: str, text: str, wanted: Sequence[str], found: Mapping[str, Sequence[str]]) -> str:
    """How far one group is."""
    proof, gaps = sum(ident in found for ident in wanted), missing(found, wanted)
    apart = sum(ident in EXCEPTIONS for ident in wanted)
    excepted = f", {apart} excepted" if apart else ""
    return f"{group.upper():<2} {proof:>3}/{len(wanted):<3} {text}{excepted}" + (
        f"  missing: {' '.join(gaps)}" if gaps else ""
    )


def main() -> int:
    """Print the coverage."""
    parser = argparse.ArgumentParser(prog="python -m tools.ids", description=__doc__)
    parser.add_argument("--strict", action="store_true", help="exit with 1 where any is missing")
    parser.add_argument("--failures", action="store_true", help="exit with 1 where a failure is missing")
    parser.add_argument("--tests", action="store_true", help="list the tests of each id")
    given = parser.parse_args()
    tests = list(named_tests(TESTS))
    found = proven(tests)
    print(*report(found), sep="\n")
    if given.tests:
        print(*(f"{ident}  {test}" for ident in listed() for test in found.get(ident, ())), sep="\n")
    strange = sorted(set(found) - set(listed()))
    if strange:
        print(f"named and not listed: {' '.join(strange)}")
    wrong = misnamed(tests)
    if wrong:
        print(f"named by what is no id: {' '.join(wrong)}")
    both = sorted(set(found) & set(EXCEPTIONS))
    if both:
        print(f"excepted and tested: {' '.join(both)}")
    wanted = [*(scenarios() if given.strict else ()), *(failures() if given.strict or given.failures else ())]
    return 1 if strange or wrong or both or missing(found, wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
