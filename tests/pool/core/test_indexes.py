"""Only `PoolState` changes an index: every other module of the core reads them, read here from the syntax tree."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from ostler.pool import core
from ostler.pool.core.records import KeyState, SeatQueue, SlotRecord
from ostler.pool.core.state import PoolState

INDEXES = {
    field.name
    for record in (PoolState, KeyState, SlotRecord, SeatQueue)
    for field in fields(record)
    if any(kind in str(field.type) for kind in ("dict[", "set[", "list[", "FairQueue", "OwnerTurns"))
}
CHANGES = {
    "add",
    "append",
    "clear",
    "discard",
    "join",
    "leave",
    "pop",
    "popitem",
    "remove",
    "served",
    "setdefault",
    "took",
    "update",
}
MODULES = [path for path in Path(str(core.__file__)).parent.glob("*.py") if path.name != "state.py"]


def is_index(node: ast.AST) -> bool:
    """Whether this is `something.index`, where it is not an attribute of the module's own object."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr in INDEXES
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    )


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement or a call changes."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        yield node.func.value
    for target in targets:
        for part in target.elts if isinstance(target, ast.Tuple) else [target]:
            yield part.value if isinstance(part, ast.Subscript) else part


def writes(source: str) -> list[str]:
    """The places at which a source changes an index."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) for what in changed(node) if is_index(what)]


def test_the_indexes_are_found() -> None:
    assert {"keys", "claims", "unserved_keys", "breakers", "queues", "parked", "leases", "settled_groups"} <= INDEXES


@pytest.mark.parametrize(
    "source",
    [
        "state.keys[key] = key_state",
        "del key_state.queues[name]",
        "state.breakers.pop(group, None)",
        "slot.seats.clear()",
        "before, state.unserved_keys = state.unserved_keys, {}",
        "state.settled_groups |= {group}",
        "queue.claims.remove(waiting)",
        "state.turns.took(owner)",
    ],
)
def test_a_write_to_an_index_is_seen(source: str) -> None:
    assert writes(source)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_only_the_state_writes_its_indexes(module: Path) -> None:
    assert writes(module.read_text()) == []
