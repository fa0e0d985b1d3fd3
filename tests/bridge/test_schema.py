"""Signatures, their schemas, and what they let through."""

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ostler.bridge.schema import Shape, SignatureRefused, plain, shape_of, signature_of
from ostler.bridge.tool import ToolContext
from ostler.bridge.validation import LIMIT, problems


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Weekday(enum.IntEnum):
    MONDAY = 1
    TUESDAY = 2


@dataclass(frozen=True)
class Point:
    x: float
    y: Annotated[float, "upwards"] = 0.0


@dataclass(frozen=True, slots=True)
class Line:
    points: tuple[Point, ...]
    colour: Colour = Colour.RED
    tags: list[str] = field(default_factory=list)


class Card(TypedDict):
    name: str
    age: NotRequired[int]


Name = NewType("Name", str)


@dataclass
class Tree:
    children: "list[Tree]"


# What may come in, beside what the function gets for it.
Case = tuple[Any, Any]


def same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    return values.map(lambda value: (value, value))


points = st.builds(
    lambda x, y: ({"x": x} | ({} if y is None else {"y": y}), Point(float(x), 0.0 if y is None else float(y))),
    st.integers(-9, 9) | st.floats(-9, 9),
    st.none() | st.floats(-9, 9),
)
lines = st.builds(
    lambda inside, colour: (
        {"points": [given for given, _ in inside], "colour": colour.value},
        Line(tuple(got for _, got in inside), colour),
    ),
    st.lists(points, max_size=3),
    st.sampled_from(Colour),
)
LEAVES: list[tuple[Any, st.SearchStrategy[Case]]] = [
    (str, same(st.text())),
    (int, same(st.integers())),
    (float, same(st.floats(allow_nan=False, allow_infinity=False))),
    (bool, same(st.booleans())),
    (None, same(st.none())),
    (Any, same(st.text() | st.integers())),
    (Name, same(st.text())),
    (Literal["a", 3, True], same(st.sampled_from(["a", 3, True]))),
    (Colour, st.sampled_from(Colour).map(lambda each: (each.value, each))),
    (Weekday, st.sampled_from(Weekday).map(lambda each: (int(each), each))),
    (Point, points),
    (Line, lines),
    (Card, same(st.fixed_dictionaries({"name": st.text()}, optional={"age": st.integers()}))),
]


def lists_of(inner: tuple[Any, st.SearchStrategy[Case]]) -> tuple[Any, st.SearchStrategy[Case]]:
    cases = st.lists(inner[1], max_size=3).map(lambda pairs: ([a for a, _ in pairs], [b for _, b in pairs]))
    return list[inner[0]], cases  # type: ignore[name-defined] - made at run time


def mappings_of(inner: tuple[Any, st.SearchStrategy[Case]]) -> tuple[Any, st.SearchStrategy[Case]]:
    cases = st.dictionaries(st.text(), inner[1], max_size=3).map(
        lambda pairs: ({key: a for key, (a, _) in pairs.items()}, {key: b for key, (_, b) in pairs.items()})
    )
    return dict[str, inner[0]], cases  # type: ignore[name-defined] - as above


def optional(inner: tuple[Any, st.SearchStrategy[Case]]) -> tuple[Any, st.SearchStrategy[Case]]:
    return inner[0] | None, inner[1] | st.just((None, None))


def described(inner: tuple[Any, st.SearchStrategy[Case]]) -> tuple[Any, st.SearchStrategy[Case]]:
    return Annotated[inner[0], "some words"], inner[1]


annotations = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: inner.flatmap(
        lambda each: (
            st.sampled_from([lists_of(each), mappings_of(each), described(each)])
            | (st.just(optional(each)) if each[0] is not None else st.just(lists_of(each)))
        )
    ),
    max_leaves=4,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xya"), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_what_a_signature_allows_passes_and_becomes_its_values(data: st.DataObject) -> None:
    annotation, cases = data.draw(annotations)
    came, expected = data.draw(cases)
    shape = shape_of(annotation)
    Draft202012Validator.check_schema(shape.schema)
    came = json.loads(json.dumps(came))
    assert problems(shape.schema, came) == []
    assert shape.load(came) == expected
    assert problems(shape.schema, plain(expected)) == []


@given(st.data())
@settings(max_examples=600, deadline=None)
def test_the_verdict_is_that_of_the_standard(data: st.DataObject) -> None:
    annotation, cases = data.draw(annotations)
    shape = shape_of(annotation)
    value = data.draw(json_values | cases.map(lambda case: case[0]).flatmap(broken))
    assert bool(problems(shape.schema, value)) is not Draft202012Validator(shape.schema).is_valid(value)


def broken(value: Any) -> st.SearchStrategy[Any]:
    """The value with one place in it replaced by something else."""
    if isinstance(value, list) and value:
        return st.integers(0, len(value) - 1).flatmap(
            lambda place: broken(value[place]).map(lambda new: [*value[:place], new, *value[place + 1 :]])
        )
    if isinstance(value, dict) and value:
        return st.sampled_from(sorted(value)).flatmap(
            lambda key: broken(value[key]).map(lambda new: {**value, key: new}) | st.just({**value, "extra": 1})
        )
    return json_values


def paths(value: Any, path: str = "") -> list[tuple[str, Callable[[Any], Any]]]:
    """Every place in a value: how a message names it, and a copy of the whole with something else there."""
    found: list[tuple[str, Callable[[Any], Any]]] = [(path, lambda new: new)]
    if isinstance(value, list):
        for place, each in enumerate(value):
            for inner, put in paths(each, f"{path}[{place}]"):
                found.append(
                    (inner, lambda new, put=put, place=place: [*value[:place], put(new), *value[place + 1 :]])  # type: ignore[misc] - a nonsense on purpose
                )
    if isinstance(value, dict):
        for key, each in value.items():
            for inner, put in paths(each, f"{path}.{key}" if path else key):
                found.append((inner, lambda new, put=put, key=key: {**value, key: put(new)}))  # type: ignore[misc] - made at run time
    return found


@given(lines, st.data())
@settings(max_examples=200, deadline=None)
def test_a_broken_place_is_named(case: Case, data: st.DataObject) -> None:
    came = {"line": case[0]}
    schema = {"type": "object", "properties": {"line": shape_of(Line).schema}, "additionalProperties": False}
    path, put = data.draw(st.sampled_from(paths(came)[1:]))
    found = problems(schema, put({"not": "wanted"} if path.endswith(("x", "y", "colour", "]")) else 7.5))
    if path.endswith("]") and "points" in path:
        assert found[0].startswith((f"{path}.x: missing", f"{path}.not: unknown"))
    elif path.endswith((".x", ".y", "colour")):
        assert found[0].startswith(f"{path}: expected ")
        assert '{"not":"wanted"}' in found[0]
    else:
        assert found[0].startswith(f"{path}: expected ")
        assert "7.5" in found[0]


def test_a_signature_becomes_a_schema() -> None:
    def search(
        query: Annotated[str, "what to look for"],
        *,
        context: ToolContext,
        limit: int = 5,
        colour: Colour = Colour.BLUE,
        near: Point | None = None,
    ) -> None: ...

    signature = signature_of(search, ToolContext)
    assert signature.injected == "context"
    assert signature.schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for"},
            "limit": {"type": "integer", "default": 5},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "blue"},
            "near": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {
                            "x": {"type": "number"},
                            "y": {"type": "number", "description": "upwards", "default": 0.0},
                        },
                        "required": ["x"],
                        "additionalProperties": False,
                    },
                    {"type": "null"},
                ],
                "default": None,
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert signature.arguments({"query": "q", "near": {"x": 1}}) == {"query": "q", "near": Point(1.0)}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (set[int], {1, 2}),
        (frozenset[int], frozenset({1, 2})),
        (Sequence[int], [1, 2]),
        (tuple[int, ...], (1, 2)),
        (list, [1, 2]),
    ],
)
def test_arrays_become_what_the_function_asked_for(annotation: Any, expected: object) -> None:
    loaded = shape_of(annotation).load([1, 2])
    assert loaded == expected
    assert type(loaded) is type(expected)


def test_a_union_takes_the_branch_that_fits() -> None:
    shape = shape_of(Point | Card | Weekday | str)
    loaded = [shape.load(value) for value in ({"x": 1}, {"name": "n"}, 2, "word")]
    assert loaded == [Point(1.0), {"name": "n"}, Weekday.TUESDAY, "word"]
    assert shape_of(Mapping[str, Point | None]).load({"a": {"x": 2}, "b": None}) == {"a": Point(2.0), "b": None}


def test_integers_that_came_as_floats_are_integers() -> None:
    loaded = shape_of(int).load(3.0)
    assert loaded == 3
    assert type(loaded) is int


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "a: missing (expected string)"),
        ({"a": 1}, "a: expected string, got integer 1"),
        ({"a": "", "b": [1, "x"]}, 'b[1]: expected integer, got string "x"'),
        ({"a": "", "c": {"x": True}}, "c.x: expected number, got boolean true"),
        ({"a": "", "d": "green"}, 'd: expected one of "red", "blue", got "green"'),
        ({"a": "", "z": 1}, "z: unknown, got integer; known here: a, b, c, d"),
        ([], "arguments: expected object, got array []"),
        ({"a": "x" * 99, "b": "y" * 99}, f'b: expected array, got string "{"y" * 59}… (string)'),
    ],
)
def test_messages_say_where_what_and_instead_of_what(value: Any, message: str) -> None:
    def function(a: str, b: list[int] = [], c: Point | None = None, d: Colour = Colour.RED) -> None: ...  # noqa: B006 - a default is what is tested

    assert problems(signature_of(function, ToolContext).schema, value)[0] == message


def test_repeats_in_a_set_are_named() -> None:
    assert problems(shape_of(set[int]).schema, [1, 2, 1]) == ["[2]: expected no repeats, got 1 again"]


def test_there_are_never_more_messages_than_a_model_can_use() -> None:
    assert len(problems(shape_of(list[int]).schema, ["x"] * 1000)) == LIMIT


class Opaque: ...


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (bytes, "bytes has no JSON schema"),
        (Opaque, "Opaque has no JSON schema"),
        (dict[int, str], "dict of"),
        (tuple[int, str], "tuple of"),
        (Literal[Colour.RED], "a Literal may hold"),
        (Tree, "Tree contains itself"),
    ],
)
def test_what_has_no_schema_is_refused_by_name(annotation: Any, reason: str) -> None:
    def function(argument: Any) -> None: ...

    function.__annotations__["argument"] = annotation
    with pytest.raises(SignatureRefused, match=reason) as refusal:
        signature_of(function, ToolContext)
    assert "argument" in str(refusal.value)


def test_signatures_that_cannot_be_called_by_name_are_refused() -> None:
    def starred(*values: int) -> None: ...
    def positional(value: int, /) -> None: ...
    def bare(value) -> None: ...  # type: ignore[no-untyped-def] - made at run time
    def wrong(value: int = "x") -> None: ...  # type: ignore[assignment] - made at run time
    def unknown(value: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - a name that is not there is what is tested

    for function, reason in [
        (starred, "cannot be passed by name"),
        (positional, "cannot be passed by name"),
        (bare, "no annotation"),
        (wrong, "default does not fit"),
        (unknown, "cannot be read"),
    ]:
        with pytest.raises(SignatureRefused, match=reason):
            signature_of(function, ToolContext)


def test_shapes_are_values() -> None:
    assert shape_of(str) == Shape({"type": "string"}, shape_of(str).load)


def test_rf8_many_arguments_that_must_not_repeat_do_not_hold_up_the_loop() -> None:
    """Compared each with each, these would take hours; whoever runs into the test timeout knows why."""
    schema = {"type": "array", "items": {}, "uniqueItems": True}
    many = [*range(150_000), *([number] for number in range(150_000))]
    assert problems(schema, many) == []
    assert problems(schema, [1, True, "1", [1], [True], {"a": 1}, {"a": True}, None]) == []
    assert problems(schema, [{"a": [1], "b": 2}, {"b": 2.0, "a": [1.0]}]) == [
        '[1]: expected no repeats, got {"b":2.0,"a":[1.0]} again'
    ]
