"""What the bridge's deciders and its relay may lean on, read from their sources."""

import ast
from pathlib import Path

import pytest

import ostler.bridge.relay as relay_module

ROOM = Path(relay_module.__file__).parent
WORLD = {"asyncio", "time", "random", "secrets", "os", "socket", "threading", "subprocess", "logging", "select"}


def imported(name: str, *, anywhere: bool = True) -> set[str]:
    tree = ast.parse((ROOM / f"{name}.py").read_text())
    nodes = ast.walk(tree) if anywhere else iter(tree.body)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("name", ["binding", "bindings", "calls", "conversation", "hello", "mcp", "toolbox"])
def test_what_decides_touches_nothing(name: str) -> None:
    assert imported(name) & WORLD == set()


def test_the_relay_loads_only_what_costs_nothing() -> None:
    assert imported("relay", anywhere=False) == {"_socket", "posix", "select", "sys", "time"}
    assert imported("relay") == {"_ctypes", "_socket", "posix", "select", "sys", "time", "json"}
    assert imported("relay_start") == {"posix", "sys"}
