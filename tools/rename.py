"""Renames over the whole tree, by type and not by text: `python -m tools.rename LIST --server PYRIGHT_LANGSERVER`.

A line of LIST is `path/to/file.py Qualified.name new_name`; `#` begins a comment. Definitions are found in the syntax
tree, uses by the language server of pyright (`npm install pyright` anywhere). Strings and prose are left alone, but for
names in `__slots__`.

Rules:
- The server works on a mirror in a temporary folder that is laid out as the packages are installed; each change is
  written to the mirror and to the tree.
- A line that cannot be carried out is printed, the others are carried out, and the exit code is 1.
- Run mypy, the linter and the suite afterwards: a class that implements a protocol has methods of its own to rename.
"""

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("wire", "process", "metrics", "demo", "pool", "bridge", "gateway")
OTHERS = ("tests", "bench", "examples", "tools")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", "results", "found", "corpus")
SLOTS = re.compile(r'__slots__ = \([^)]*\)|__slots__ = "[^"]*"')


class Mirror:
    """A copy of the tree in which `ostler` is a package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for room in ROOMS:
            if (ROOT / room).is_dir():
                shutil.copytree(ROOT / room, folder / "ostler" / room, ignore=LEFT_OUT)
        for other in OTHERS:
            if (ROOT / other).is_dir():
                shutil.copytree(ROOT / other, folder / other, ignore=LEFT_OUT)
        for stubs in (ROOT / "typings").iterdir():
            if stubs.name != "ostler":
                shutil.copytree(stubs, folder / "typings" / stubs.name)
        settings = {"stubPath": "typings", "typeCheckingMode": "off", "venvPath": str(ROOT), "venv": ".venv"}
        (folder / "pyrightconfig.json").write_text(json.dumps({"include": ["."], "extraPaths": ["."], **settings}))

    def of(self, name: str) -> Path:
        """Where a file of the tree stands in the mirror."""
        return self.folder / ("ostler" if Path(name).parts[0] in ROOMS else "") / name

    def write(self, path: Path, text: str) -> None:
        """Into the mirror and into the tree."""
        path.write_text(text)
        parts = path.relative_to(self.folder).parts
        ROOT.joinpath(*(parts[1:] if parts[0] == "ostler" else parts)).write_text(text)


class Server:
    """The language server, asked one thing after the other."""

    def __init__(self, program: str, mirror: Mirror) -> None:
        self._process = subprocess.Popen([program, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._process.stdin is None or self._process.stdout is None:
            raise OSError("the language server has no pipes")
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._last = 0
        place = {"uri": mirror.folder.as_uri(), "name": "mirror"}
        able = {"workspace": {"configuration": True, "workspaceEdit": {"documentChanges": True}}}
        asked = {"processId": None, "rootUri": place["uri"], "workspaceFolders": [place], "capabilities": able}
        self.ask("initialize", asked)
        self.tell("initialized", {})

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params})
        while True:
            message = self._read()
            if "method" in message:
                if "id" in message:
                    items = message["params"].get("items", ()) if message["method"] == "workspace/configuration" else ()
                    self._send({"id": message["id"], "result": [{} for _ in items] if items else None})
            elif message.get("id") == self._last:
                if "error" in message:
                    raise ValueError(message["error"]["message"])
                return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._stdin.flush()

    def _read(self) -> dict[str, Any]:
        size = 0
        while line := self._stdout.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        if not size:
            raise EOFError("the language server has ended")
        found: dict[str, Any] = json.loads(self._stdout.read(size))
        return found


def definition(text: str, qualified: str) -> dict[str, int]:
    """Where a name is defined: a class, a function, an assignment, an attribute of `self`, or a parameter."""
    scope: ast.AST = ast.parse(text)
    *outer, name = qualified.split(".")
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for part in outer:
        scope = next(node for node in ast.walk(scope) if isinstance(node, kinds) and node.name == part)
    lines, found = text.splitlines(), []
    for node in ast.walk(scope):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name and node is not scope:
                found.append((0, node.lineno - 1, lines[node.lineno - 1].index(name, node.col_offset)))
            case ast.Name(id=known, ctx=ast.Store()) if known == name:
                found.append((1, node.lineno - 1, node.col_offset))
            case ast.Attribute(value=ast.Name(id="self"), attr=known, ctx=ast.Store()) if known == name:
                found.append((2, node.lineno - 1, (node.end_col_offset or 0) - len(name)))
            case ast.arg(arg=known) if known == name:
                found.append((3, node.lineno - 1, node.col_offset))
            case _:
                pass
    if not found:
        raise ValueError(f"no definition of {qualified}")
    _, line, character = min(found)
    return {"line": line, "character": character}


def edited(text: str, edits: Sequence[dict[str, Any]]) -> str:
    """The text with every edit made, the last one first. Each is within one line."""
    lines = text.split("\n")
    places = {(edit["range"]["start"]["line"], edit["range"]["start"]["character"]): edit for edit in edits}
    for (line, start), edit in sorted(places.items(), reverse=True):
        old = lines[line]
        lines[line] = old[:start] + edit["newText"] + old[edit["range"]["end"]["character"] :]
    return "\n".join(lines)


def rename(server: Server, mirror: Mirror, name: str, qualified: str, new: str) -> int:
    """Carry one line out; how many places were changed."""
    path = mirror.of(name)
    text, uri = path.read_text(), path.as_uri()
    place = definition(text, qualified)
    server.tell(
        "textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": text}}
    )
    answer = server.ask("textDocument/rename", {"textDocument": {"uri": uri}, "position": place, "newName": new})
    server.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
    changes = [(each["textDocument"]["uri"], each["edits"]) for each in (answer or {}).get("documentChanges", ())]
    changed = {Path(unquote(urlparse(where).path)): edits for where, edits in changes}
    for file, edits in changed.items():
        mirror.write(file, edited(file.read_text(), edits))
    old = qualified.rpartition(".")[2]
    slotted = SLOTS.sub(lambda found: found.group().replace(f'"{old}"', f'"{new}"'), path.read_text())
    mirror.write(path, slotted)
    told = [{"uri": file.as_uri(), "type": 2} for file in {path, *changed}]
    server.tell("workspace/didChangeWatchedFiles", {"changes": told})
    return sum(len(edits) for edits in changed.values())


def wait_until_read(server: Server, mirror: Mirror) -> None:
    """The server finds uses only in files that it has read: wait until it finds no more of a name that all use."""
    path = mirror.of("wire/json.py")
    text, uri, last = path.read_text(), path.as_uri(), -1
    server.tell(
        "textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": text}}
    )
    where = {"textDocument": {"uri": uri}, "position": definition(text, "JsonObject")}
    while last < len(
        found := server.ask("textDocument/references", {**where, "context": {"includeDeclaration": True}})
    ):
        last = len(found)
        time.sleep(2)


def orders(path: Path) -> Iterator[tuple[str, str, str]]:
    """The lines of a list."""
    for line in path.read_text().splitlines():
        words = line.partition("#")[0].split()
        if words:
            name, qualified, new = words
            yield name, qualified, new


def main(argv: Sequence[str] | None = None) -> int:
    """Carry a list out."""
    parser = argparse.ArgumentParser(prog="python -m tools.rename", description=__doc__.partition("\n")[0])
    parser.add_argument("list", type=Path)
    parser.add_argument("--server", default="pyright-langserver", help="the program (on PATH by default)")
    given = parser.parse_args(argv)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder).resolve())
        server = Server(given.server, mirror)
        try:
            wait_until_read(server, mirror)
            for name, qualified, new in orders(given.list):
                try:
                    print(f"{name} {qualified} -> {new}: {rename(server, mirror, name, qualified, new)}", flush=True)
                except (ValueError, StopIteration, OSError) as error:
                    failed += 1
                    print(f"FAILED {name} {qualified} -> {new}: {error}", flush=True)
        finally:
            server.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
