"""A document as TOML, in inline tables. What TOML has no word for becomes an empty text."""

import json
from collections.abc import Mapping
from typing import Any


def written(document: Mapping[str, Any]) -> str:
    """A file. Raises `RecursionError` where it is nested too deeply."""
    return "".join(f"{text(key)} = {value(part)}\n" for key, part in document.items())


def value(part: Any) -> str:
    """One value."""
    match part:
        case None:
            return '""'
        case dict():
            return "{" + ", ".join(f"{text(key)} = {value(each)}" for key, each in part.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(value, part)) + "]"
        case str():
            return text(part)
        case _:
            return json.dumps(part)


def text(part: str) -> str:
    """A basic string is what JSON calls one."""
    return json.dumps(part, ensure_ascii=False)
