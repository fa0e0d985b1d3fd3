"""What the suite takes for granted of the machine that it runs on: nothing of these."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WAITS = {"timeout": 0, "wait_for": 1, "within": 0, "soon": 2, "eventually": 2}
"""What waits, and which of its arguments is for how long."""
PATIENT = 100


def test_n53_a_run_in_the_background_can_interrupt_what_it_starts() -> None:
    """A shell lets what it starts there ignore Ctrl-C, and with it everything below."""
    ignoring = ["sh", "-c", 'trap "" INT QUIT; exec "$@"', "sh", sys.executable, "-m", "pytest", "-q"]
    asked = ["-p", "no:cacheprovider", "tests/gateway/http/test_refusals.py", "-k", "ctrl_c_in_the_first_moments"]
    done = subprocess.run([*ignoring, *asked], cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout


def hasty(tree: ast.Module) -> Iterator[int]:
    """Lines that give up after a time that a busy machine takes; not where that is what is expected."""
    expected = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith) and "TimeoutError" in ast.unparse(node.items[0])
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in expected:
            place = WAITS.get(ast.unparse(node.func).rpartition(".")[2])
            if place is not None and len(node.args) > place:
                match node.args[place]:
                    case ast.Constant(value=int() | float() as seconds) if seconds < PATIENT:
                        yield node.lineno


def test_n53_no_test_gives_up_before_a_busy_machine_is_done() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    found = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in hasty(ast.parse(path.read_text()))]
    assert found == [], f"wait for {PATIENT} s at least: the end of a wait is for what hangs, and asserts no time"


def test_n53_a_short_wait_is_found_and_one_that_is_to_end_is_none() -> None:
    short = "async with asyncio.timeout(5):\n  pass\nawait asyncio.wait_for(x, 0.5)\n"
    due = "with pytest.raises(TimeoutError):\n  await asyncio.wait_for(x, 0.5)\nawait soon(x, 'it', 300)\n"
    assert list(hasty(ast.parse(short))) == [1, 3]
    assert list(hasty(ast.parse(due))) == []
