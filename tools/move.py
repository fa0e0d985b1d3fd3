"""Moves of modules over the whole tree: `python -m tools.move LIST`, in a checkout without changes.

A line of LIST is `old.module new.module`, both without `ostler.`; what lies below a package moves with it, unless a
longer line names it. `#` begins a comment.

Rules:
- Files are moved by git; imports are rewritten as statements, dotted names and paths as words, in every text.
- All lines are carried out at once, so that a module may take the place of another one that moves.
- A package that comes to be gets an `__init__.py` whose docstring must be written by hand: it is named in the output.
- The lists of packages in `pyproject.toml` and the links in `typings/ostler` are made anew.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("wire", "process", "metrics", "demo", "pool", "bridge", "gateway")
FROM = re.compile(r"^([ \t]*)from (ostler[\w.]*) import ([\w ,]+?)(?=[ \t]*(?:#.*)?$)", re.MULTILINE)
BESIDE = re.compile(r"^([ \t]*)from \.(\w+) import", re.MULTILINE)
DONE = "\N{SECTION SIGN}"
"""Stands before a name that was rewritten already, until all are."""


def git(*words: str) -> str:
    """What git says."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def module_of(path: str) -> str:
    """The dotted name of a file."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class Plan:
    """Where everything goes."""

    def __init__(self, lines: Mapping[str, str]) -> None:
        self.lines = lines
        self.files = [path for path in git("ls-files").splitlines() if path.split("/")[0] in ROOMS]
        self.modules = {module_of(path) for path in self.files if path.endswith(".py")}
        names = {*lines, *(module for module in self.modules if self.target(module) != module)}
        self.names = sorted(names, key=len, reverse=True)
        dotted = "|".join(map(re.escape, self.names))
        self.word = re.compile(rf"({DONE}?)\bostler\.({dotted})(?!\w)")
        self.paths = {path: new for path in self.files if (new := self.place(path)) != path}
        folders = {old.replace(".", "/"): new.replace(".", "/") for old, new in lines.items()}
        self.places = {**{old: new for old, new in folders.items() if (ROOT / old).is_dir()}, **self.paths}
        found = "|".join(map(re.escape, sorted(self.places, key=len, reverse=True)))
        self.path = re.compile(rf"(?<![\w/.-])({found})(?!\w)")

    def target(self, module: str) -> str:
        """Where a module goes."""
        fitting = [old for old in self.lines if module == old or module.startswith(old + ".")]
        old = max(fitting, key=len, default=None)
        return module if old is None else self.lines[old] + module[len(old) :]

    def place(self, path: str) -> str:
        """Where a file goes."""
        parent, _, name = path.rpartition("/")
        if name == "__init__.py" or not name.endswith(".py"):
            return f"{self.target(parent.replace('/', '.')).replace('.', '/')}/{name}"
        return self.target(module_of(path)).replace(".", "/") + ".py"

    def rewritten(self, path: str, text: str) -> str:
        """A text of the tree; `path` is where it stands now."""
        if path.endswith(".py"):
            text = FROM.sub(self._imports, text)
            package = ".".join(path.split("/")[:-1])
            text = BESIDE.sub(lambda found: self._beside(found, package), text)
        text = self.word.sub(lambda found: found[0] if found[1] else f"ostler.{self.target(found[2])}", text)
        return self.path.sub(lambda found: self.places[found[1]], text.replace(DONE, ""))

    def _imports(self, found: "re.Match[str]") -> str:
        """`from package import module`: a module may get another package, and another name."""
        space, package, names = found.groups()
        lines, staying = [], []
        for word in map(str.strip, names.split(",")):
            name, _, alias = word.partition(" as ")
            module = ".".join([*package.split(".")[1:], name])
            if module in self.modules and module in self.names:
                home, _, leaf = self.target(module).rpartition(".")
                called = f" as {alias or name}" if leaf != (alias or name) else ""
                lines.append(f"{space}from {DONE}ostler.{home} import {leaf}{called}")
            else:
                staying.append(word)
        if not lines:
            return found[0]
        return "\n".join([*lines, *([f"{space}from {package} import {', '.join(staying)}"] if staying else [])])

    def _beside(self, found: "re.Match[str]", package: str) -> str:
        module = f"{package}.{found[2]}"
        return f"{found[1]}from .{self.target(module).rpartition('.')[2]} import" if module in self.names else found[0]


def carry_out(plan: Plan) -> None:
    """Rewrite every text, then move."""
    for path in git("ls-files").splitlines():
        file = ROOT / path
        if file.is_symlink() or not file.is_file() or path.startswith(("tests/fuzz/found", "requirements/")):
            continue
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        new = plan.rewritten(path, text)
        if new != text:
            file.write_text(new)
    taken: set[str] = set()
    for old, new in plan.paths.items():
        if new in taken:
            git("rm", "-q", "-f", old)  # the `__init__.py` of a second package that goes to one place
            continue
        taken.add(new)
        (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
        git("mv", old, new)


def complete() -> None:
    """Packages without `__init__.py`, the lists in `pyproject.toml`, the links for type checkers."""
    rooms = [room for room in ROOMS if any((ROOT / room).rglob("*.py"))]
    for room in rooms:
        for folder in sorted({path.parent for path in (ROOT / room).rglob("*.py")}):
            for package in [folder, *folder.parents]:
                if package == ROOT:
                    break
                if not (package / "__init__.py").exists():
                    (package / "__init__.py").write_text('"""To be written."""\n')
                    print(f"new package: {package.relative_to(ROOT)}")
        link = ROOT / "typings" / "ostler" / room
        if not link.is_symlink():
            link.symlink_to(f"../../{room}")
    packages = sorted(
        ".".join(["ostler", *init.parent.relative_to(ROOT).parts])
        for room in rooms
        for init in (ROOT / room).rglob("__init__.py")
    )
    file = ROOT / "pyproject.toml"
    listed = "".join(f'    "{package}",\n' for package in packages)
    text = re.sub(
        r'^packages = \[\n    "ostler\..*?\n\]',
        f"packages = [\n{listed}]",
        file.read_text(),
        flags=re.DOTALL | re.MULTILINE,
    )
    mapped = "".join(f'"ostler.{room}" = "{room}"\n' for room in sorted(rooms))
    head = "[tool.setuptools.package-dir]\n"
    file.write_text(re.sub(re.escape(head) + r'(?:"ostler.*\n)+', lambda _: head + mapped, text))


def main(argv: Sequence[str] | None = None) -> int:
    """Carry a list out."""
    parser = argparse.ArgumentParser(prog="python -m tools.move", description=__doc__.partition("\n")[0])
    parser.add_argument("list", type=Path)
    given = parser.parse_args(argv)
    if git("status", "--porcelain", "--untracked-files=no").strip():
        parser.error("there are changes that are not committed")
    lines = (line.partition("#")[0].split() for line in given.list.read_text().splitlines())
    plan = Plan({words[0]: words[1] for words in lines if words})
    carry_out(plan)
    complete()
    print(f"{len(plan.paths)} files were moved")
    return 0


if __name__ == "__main__":
    sys.exit(main())
