"""Builds the JSON schema of a tool's arguments from a Python signature, and converts valid arguments to Python values.

Rules: every schema is written inline; there is no `$ref`, because not every agent resolves one. An annotation without a
schema, or one that contains itself, is refused when the tool is created, not when it is called. `load` only gets values
that the schema allows.
"""

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Annotated, Any, Final, Literal, NewType, NotRequired, Required, Union, is_typeddict

from ostler.bridge.errors import BridgeError
from ostler.bridge.validation import problems
from ostler.wire.json import JsonObject

Load = Callable[[Any], Any]


class SignatureRefused(BridgeError):
    """This function cannot be a tool."""

    def __init__(self, function: str, detail: str) -> None:
        self.function = function
        self.detail = detail
        super().__init__(f"{function} cannot be a tool: {detail}")


class NoSchema(Exception):
    """This annotation has no JSON schema; becomes a `SignatureRefused` with the parameter's name."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The schema of one value, and the function that converts a valid JSON value to the Python value."""

    schema: JsonObject
    load: Load


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a tool. `injected` names the one that gets the call's context instead of an argument."""

    schema: JsonObject
    loads: Mapping[str, Load]
    injected: str | None = None

    def arguments(self, given: JsonObject) -> dict[str, Any]:
        return {name: self.loads[name](value) for name, value in given.items()}


@dataclass(slots=True)
class Members:
    """Collects the members of an object schema."""

    properties: dict[str, JsonObject] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    loads: dict[str, Load] = field(default_factory=dict)

    def add(self, name: str, shape: Shape, *, required: bool) -> None:
        self.properties[name] = shape.schema
        self.loads[name] = shape.load
        if required:
            self.required.append(name)

    @property
    def schema(self) -> JsonObject:
        schema: JsonObject = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = self.required
        return {**schema, "additionalProperties": False}

    def load(self, value: JsonObject) -> dict[str, Any]:
        return {name: self.loads[name](item) for name, item in value.items()}


def signature_of(function: Callable[..., object], context: type) -> Signature:
    """The parameters of `function`; the one annotated with `context` is injected. Raises `SignatureRefused`."""
    name = function.__qualname__ if isinstance(function, FunctionType) else repr(function)
    try:
        parameters = inspect.signature(function).parameters.values()
        hints = typing.get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError) as error:
        raise SignatureRefused(name, f"its signature cannot be read ({error})") from error
    members, injected = Members(), None
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise SignatureRefused(name, f"parameter {parameter.name} cannot be passed by name")
        if parameter.name not in hints:
            raise SignatureRefused(name, f"parameter {parameter.name} has no annotation")
        if hints[parameter.name] is context:
            injected = parameter.name
            continue
        try:
            shape = shape_of(hints[parameter.name])
            shape = _with_default(shape, parameter.default)
        except NoSchema as error:
            raise SignatureRefused(name, f"parameter {parameter.name}: {error}") from error
        members.add(parameter.name, shape, required=parameter.default is parameter.empty)
    return Signature(members.schema, members.loads, injected)


def shape_of(annotation: Any, inside: tuple[type, ...] = ()) -> Shape:
    """The schema of an annotation; `inside` holds the classes around it, to detect recursion. Raises `NoSchema`."""
    if annotation is None or annotation is type(None):
        return Shape({"type": "null"}, _same)
    if annotation in (Any, object):
        return Shape({}, _same)
    if isinstance(annotation, NewType):
        return shape_of(annotation.__supertype__, inside)
    simple = _SIMPLE.get(annotation) if isinstance(annotation, type) else None
    if simple is not None:
        return simple
    origin = typing.get_origin(annotation)
    if origin is not None:
        return _generic(origin, typing.get_args(annotation), inside)
    if isinstance(annotation, type):
        return _class(annotation, inside)
    raise NoSchema(f"{annotation!r} has no JSON schema")


def plain(value: object) -> Any:
    """Convert a Python value to JSON values: the opposite of `load`, for defaults and results."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


def _same(value: Any) -> Any:
    return value


_SIMPLE: Final[dict[type, Shape]] = {
    str: Shape({"type": "string"}, _same),
    int: Shape({"type": "integer"}, int),
    float: Shape({"type": "number"}, float),
    bool: Shape({"type": "boolean"}, _same),
    dict: Shape({"type": "object"}, _same),
    list: Shape({"type": "array"}, _same),
}


def _generic(origin: Any, args: tuple[Any, ...], inside: tuple[type, ...]) -> Shape:
    if origin is Literal:
        return _chosen(args)
    if origin in (Union, types.UnionType):
        return _union([shape_of(arg, inside) for arg in args])
    if origin in (Annotated, Required, NotRequired):
        return _described(shape_of(args[0], inside), args[1:])
    return _container(origin, args, inside)


def _container(origin: Any, args: tuple[Any, ...], inside: tuple[type, ...]) -> Shape:
    if origin in (dict, Mapping) and args[0] is str:
        return _mapping(shape_of(args[1], inside))
    if origin in (list, set, frozenset):
        return _array(shape_of(args[0], inside), origin)
    if origin is Sequence:
        return _array(shape_of(args[0], inside), list)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _array(shape_of(args[0], inside), tuple)
    raise NoSchema(f"{origin.__name__} of {', '.join(map(repr, args))} has no JSON schema")


def _described(shape: Shape, notes: tuple[object, ...]) -> Shape:
    texts = [note for note in notes if isinstance(note, str)]
    return Shape({**shape.schema, "description": " ".join(texts)}, shape.load) if texts else shape


def _chosen(values: tuple[object, ...]) -> Shape:
    if not all(isinstance(value, str | int | bool | None) and not isinstance(value, enum.Enum) for value in values):
        raise NoSchema("a Literal may hold texts, integers, booleans and None")
    return Shape(_enumeration(list(values)), _same)


def _enumeration(values: list[object]) -> JsonObject:
    if all(isinstance(value, str) for value in values):
        return {"type": "string", "enum": values}
    return {"enum": values}


def _union(branches: list[Shape]) -> Shape:
    def load(value: Any) -> Any:
        return next(branch.load(value) for branch in branches if not problems(branch.schema, value))

    return Shape({"anyOf": [branch.schema for branch in branches]}, load)


def _array(item: Shape, make: Callable[[Any], Any]) -> Shape:
    schema: JsonObject = {"type": "array", "items": item.schema}
    if make in (set, frozenset):
        schema["uniqueItems"] = True
    return Shape(schema, lambda value: make(item.load(each) for each in value))


def _mapping(item: Shape) -> Shape:
    schema = {"type": "object", "additionalProperties": item.schema}
    return Shape(schema, lambda value: {name: item.load(each) for name, each in value.items()})


def _class(kind: type, inside: tuple[type, ...]) -> Shape:
    if kind in inside:
        raise NoSchema(f"{kind.__name__} contains itself")
    if issubclass(kind, enum.Enum):
        return _enum(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, (*inside, kind))
    if is_typeddict(kind):
        return _typed_dict(kind, (*inside, kind))
    raise NoSchema(f"{kind.__name__} has no JSON schema")


def _enum(kind: type[enum.Enum]) -> Shape:
    values = [member.value for member in kind]
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values):
        raise NoSchema(f"the members of {kind.__name__} must be texts or integers")
    return Shape(_enumeration(values), kind)


def _dataclass(kind: type, inside: tuple[type, ...]) -> Shape:
    assert dataclasses.is_dataclass(kind)  # noqa: S101 - its only caller has checked it; narrows the type
    hints = typing.get_type_hints(kind, include_extras=True)
    members = Members()
    for each in dataclasses.fields(kind):
        if each.init:
            optional = each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
            default = inspect.Parameter.empty if each.default is dataclasses.MISSING else each.default
            members.add(each.name, _with_default(shape_of(hints[each.name], inside), default), required=not optional)
    return Shape(members.schema, lambda value: kind(**members.load(value)))


def _typed_dict(kind: type, inside: tuple[type, ...]) -> Shape:
    hints = typing.get_type_hints(kind, include_extras=True)
    required: frozenset[str] = vars(kind)["__required_keys__"]
    members = Members()
    for name, hint in hints.items():
        members.add(name, shape_of(hint, inside), required=name in required)
    return Shape(members.schema, members.load)


def _with_default(shape: Shape, default: object) -> Shape:
    if default is inspect.Parameter.empty:
        return shape
    value = plain(default)
    if found := problems(shape.schema, value):
        raise NoSchema(f"its default does not fit: {found[0]}")
    return Shape({**shape.schema, "default": value}, shape.load)
