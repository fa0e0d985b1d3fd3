"""One file starts processes. Any other would fork the loop's memory or escape the keeper."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("wire", "pool", "bridge", "gateway", "metrics")
SPAWNER = "pool/process/spawn.py"
BANNED = {
    *("Popen", "create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"),
    *("preexec_fn", "posix_spawn", "posix_spawnp", "fork", "forkpty", "system", "popen"),
}
# Only these modules' `run`, `call` and so on start processes; other objects may have methods of that name.
BANNED_MODULES = {"subprocess", "multiprocessing", "pty"}


def offences(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {name.name for name in names} & BANNED_MODULES
            case ast.ImportFrom(module=module, names=names):
                found |= {module or ""} & BANNED_MODULES | {name.name for name in names} & BANNED
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                found |= {name} & BANNED
            case _:
                pass
    return found


def test_only_the_spawner_starts_processes() -> None:
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    assert ROOT / SPAWNER in files
    found = {str(path.relative_to(ROOT)): offences(ast.parse(path.read_text())) for path in files}
    assert {name for name, names in found.items() if names} == {SPAWNER}
    assert "preexec_fn" not in found[SPAWNER]


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess",
        "from subprocess import run",
        "asyncio.create_subprocess_exec('x')",
        "loop.subprocess_exec(f)",
        "start(preexec_fn=f)",
        "os.fork()",
    ],
)
def test_the_rule_sees_each_way_to_break_it(code: str) -> None:
    assert offences(ast.parse(code))
