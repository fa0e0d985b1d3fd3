"""Has a value the shape its dataclass declares? A codec that lets a foreign type through breaks its reader later."""

import dataclasses
import types
from collections.abc import Hashable
from functools import cache
from typing import Any, Union, cast, get_args, get_origin, get_type_hints


def misfit(value: Any) -> str | None:
    """The first field of a dataclass value that is not what it is declared to be."""
    for name, wanted in hints(cast("Hashable", type(value))).items():
        held = getattr(value, name)
        if not fits(held, wanted):
            return f"{type(value).__name__}.{name} is a {type(held).__name__}, declared {wanted}"
    return None


@cache
def hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def fits(value: Any, wanted: Any) -> bool:
    """Whether the value is of the declared type, inside lists and nested dataclasses too."""
    origin = get_origin(wanted)
    if wanted is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, choice) for choice in get_args(wanted))
    if origin in (list, tuple, frozenset):
        return isinstance(value, origin) and all(fits(item, get_args(wanted)[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict)
    if dataclasses.is_dataclass(wanted):
        return type(value) is wanted and misfit(value) is None
    if wanted is int:
        return type(value) is int
    return isinstance(value, wanted)
