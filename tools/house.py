"""What the house looks like in figures: `python -m tools.house [--check] [--words]`.

Rules: only committed product files count. Under 40 lines one asks of a file whether it is an idea of its own; not of an
`__init__.py`, which states the rules of its package, nor of a file of `EXTENDED`, where one thing is one file however
short: these are counted beside. `--check` exits with 1 where a limit of `HELD` is broken; `--words` lists the places.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("wire", "process", "metrics", "demo", "pool", "bridge", "gateway")
HIDING = re.compile(
    r"\b(whoever|whom|whatever|nobody|somebody|anybody|everybody|lest|be it|for ever|in vain|anew|hitherto|thereof"
    r"|will not be hurried|is told so|as it were)\b",
    re.IGNORECASE,
)
"""Words that hide which component, client or operator acts."""
FEW_WORDS, SHORT_FILE = 4, 40
EXTENDED = ("bridge/tools", "gateway/chat/commands", "gateway/turns/tools", "pool/providers")
"""Folders to which something is added by adding one file (CONTRIBUTING.md)."""
LIMITS = {
    "import cycles between sub-packages": 0,
    "type names with more than one definition": 0,
    "docstrings of fewer than four words": 0,
    "words that hide who acts": 20,
    "files under 40 lines": 30,
}
HELD = tuple(LIMITS)[:4]
"""The limits that `make check` holds; short files are a target."""


def files() -> list[Path]:
    """The committed Python files of the product."""
    listed = subprocess.run(
        ["git", "ls-files", *(f"{room}/*.py" for room in ROOMS)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.split() if (ROOT / line).is_file()]


def cycles() -> list[str]:
    """Groups of sub-packages of one room that import each other."""
    graph = grimp.build_graph(*(f"ostler.{room}" for room in ROOMS), cache_dir=None)
    edges: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            here, there = part_of(module), part_of(imported)
            if here and there and here != there and here.split(".")[1] == there.split(".")[1]:
                edges[here].add(there)
    return sorted({" <-> ".join(sorted((a, b))) for a in edges for b in edges if a != b and reaches(edges, a, b, a)})


def part_of(module: str) -> str | None:
    """The sub-package of a module; None for the files directly in a room, which are its public face."""
    parts = module.split(".")
    package = (ROOT / "/".join(parts[1:3])).is_dir()
    return ".".join(parts[:3]) if len(parts) > 2 and package else None


def reaches(edges: dict[str, set[str]], start: str, over: str, end: str) -> bool:
    """Whether imports lead from start to over and back."""
    return over in below(edges, start) and end in below(edges, over)


def below(edges: dict[str, set[str]], start: str) -> set[str]:
    """Everything that is imported from there."""
    seen, queue = set[str](), [start]
    while queue:
        for each in edges.get(queue.pop(), ()):
            if each not in seen:
                seen.add(each)
                queue.append(each)
    return seen


def repeated_types(trees: dict[Path, ast.Module]) -> list[str]:
    """Names of classes that are defined in more than one place."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    return [f"{name}: {', '.join(found)}" for name, found in sorted(homes.items()) if len(found) > 1]


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each with its line: those of modules, classes and functions, and the strings below fields."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for place, each in enumerate(node.body):
            text = each.value if isinstance(each, ast.Expr) else None
            if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
                continue
            if place == 0 or isinstance(node.body[place - 1], ast.Assign | ast.AnnAssign):
                yield each.lineno, text.value


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tools.house", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit that is held is broken")
    parser.add_argument("--words", action="store_true", help="list each place")
    parser.add_argument("paths", nargs="*", help="only files whose path begins so, for --words")
    given = parser.parse_args()
    trees = {path: ast.parse(path.read_text()) for path in files()}
    short, hiding = [], []
    for path, tree in trees.items():
        name, text = str(path.relative_to(ROOT)), path.read_text()
        prose = list(docstrings(tree))
        short += [f"{name}:{line}: {said!r}" for line, said in prose if len(said.split()) < FEW_WORDS]
        for line, said in [*prose, *comments(text)]:
            hiding += [f"{name}:{line}: {found.group(0)}" for found in HIDING.finditer(said)]
    short_files = [path.relative_to(ROOT) for path in trees if lines_of(path) < SHORT_FILE]
    few_lines = [str(path) for path in short_files if path.name != "__init__.py" and str(path.parent) not in EXTENDED]
    found = dict(zip(LIMITS, (cycles(), repeated_types(trees), short, hiding, few_lines), strict=True))
    for what, places in found.items():
        print(f"{len(places):6}  {what} (at most {LIMITS[what]})")
        if given.words:
            shown = [each for each in places if not given.paths or each.startswith(tuple(given.paths))]
            print(*(f"        {each}" for each in shown), sep="\n")
    print(
        f"{len(short_files) - len(few_lines):6}  more files under {SHORT_FILE} lines: `__init__.py`, one file per thing"
    )
    rooms = Counter[str]()
    for path in trees:
        rooms[path.relative_to(ROOT).parts[0]] += lines_of(path)
    print(f"{sum(rooms.values()):6}  lines: " + ", ".join(f"{room} {many}" for room, many in rooms.most_common()))
    broken = [what for what in HELD if len(found[what]) > LIMITS[what]]
    return 1 if given.check and broken else 0


def lines_of(path: Path) -> int:
    """How long the file is."""
    return path.read_text().count("\n")


if __name__ == "__main__":
    sys.exit(main())
