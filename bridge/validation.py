"""Validates JSON against the schemas that `schema.py` writes, with messages from which a model can correct its call.

Rules: every problem names its path, what was expected and what came. Only the keywords that `schema.py` writes are
supported: tools of upstreams and of API clients have schemas of their own, which their owners check. Compared with
`jsonschema`, the obvious library: the verdicts are the same (a property test compares them), and it takes nine times as
long for a small call (136 against 15 us), 0.11 s to import, and five dependencies. `msgspec`, a dependency already,
tells one problem and not five, without the choices of an enum or the known names; it refuses 3.0 as an integer, ignores
unknown members of a dataclass, and has no union of two classes.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from ostler.wire.json import JsonObject, Unencodable, encode_line

LIMIT: Final = 5
SHOWN: Final = 60


def problems(schema: JsonObject, value: object, path: str = "") -> list[str]:
    """What is wrong, in at most `LIMIT` sentences; empty for a valid value."""
    found: list[str] = []
    for problem in _problems(schema, value, path):
        found.append(problem)
        if len(found) == LIMIT:
            break
    return found


def shown(value: object) -> str:
    """The value as JSON, shortened to `SHOWN` characters."""
    try:
        text = encode_line(value)[:-1].decode()
    except Unencodable:
        text = type(value).__name__
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({kind_of(value)})"


def kind_of(value: object) -> str:
    """The JSON name of the value's type."""
    return _NAMES.get(type(value), type(value).__name__)


_NAMES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def _problems(schema: JsonObject, value: object, path: str) -> Iterator[str]:
    if "anyOf" in schema:
        yield from _any_of(schema["anyOf"], value, path)
        return
    if "enum" in schema and not any(_equal(value, each) for each in schema["enum"]):
        choices = ", ".join(shown(each) for each in schema["enum"])
        yield f"{_at(path)}: expected one of {choices}, got {shown(value)}"
        return
    expected = schema.get("type")
    if expected is None:
        return
    if not _KINDS[expected](value):
        yield f"{_at(path)}: expected {expected}, got {kind_of(value)} {shown(value)}"
    elif isinstance(value, list):
        yield from _array(schema, value, path)
    elif isinstance(value, dict):
        yield from _object(schema, value, path)


def _any_of(branches: list[JsonObject], value: object, path: str) -> Iterator[str]:
    """Problems of a union: those of the only branch of the right kind, which help more than a list of the kinds."""
    found = [problems(branch, value, path) for branch in branches]
    if not all(found):
        return
    inner = [each for branch, each in zip(branches, found, strict=True) if _same_kind(branch, value)]
    if len(inner) == 1:
        yield from inner[0]
    else:
        expected = " or ".join(dict.fromkeys(_name(branch) for branch in branches))
        yield f"{_at(path)}: expected {expected}, got {kind_of(value)} {shown(value)}"


def _array(schema: JsonObject, value: list[Any], path: str) -> Iterator[str]:
    items = schema.get("items")
    if items:
        for place, each in enumerate(value):
            yield from _problems(items, each, f"{path}[{place}]")
    if schema.get("uniqueItems"):
        seen: set[object] = set()
        for place, each in enumerate(value):
            key = _key(each)
            if key in seen:
                yield f"{path}[{place}]: expected no repeats, got {shown(each)} again"
            seen.add(key)


def _object(schema: JsonObject, value: JsonObject, path: str) -> Iterator[str]:
    properties: dict[str, JsonObject] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_join(path, name)}: missing (expected {_name(properties[name])})"
    others: JsonObject | bool = schema.get("additionalProperties", True)
    for name, each in value.items():
        known = properties.get(name, others)
        if isinstance(known, dict):
            yield from _problems(known, each, _join(path, name))
        elif not known:
            yield f"{_join(path, name)}: unknown, got {kind_of(each)}; known here: {', '.join(properties) or 'none'}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return _is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


_KINDS: Final[dict[str, Callable[[object], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _same_kind(branch: JsonObject, value: object) -> bool:
    expected = branch.get("type")
    return expected in ("array", "object") and _KINDS[expected](value)


def _equal(left: object, right: object) -> bool:
    return _key(left) == _key(right)


def _key(value: object) -> object:
    """A key that is equal, with equal hash, for values equal in JSON: true is not 1, at any depth; 1 is 1.0."""
    match value:
        case bool():
            return "boolean", value
        case list():
            return "array", tuple(map(_key, value))
        case dict():
            return "object", frozenset((name, _key(each)) for name, each in value.items())
        case _:
            return value


def _name(schema: JsonObject) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_name(branch) for branch in schema["anyOf"]))
    if "enum" in schema:
        return f"one of {', '.join(shown(each) for each in schema['enum'])}"
    kind = schema.get("type", "anything")
    return str(kind)


def _at(path: str) -> str:
    return path or "arguments"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
