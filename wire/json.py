"""JSON as it crosses a pipe: strict on what we write, patient with what we read.

Rules:
- What we write is one document on one line, valid UTF-8 always: two real agents exit on a single bad byte, and with
  them every session they hold. A lone surrogate in a text becomes U+FFFD before it is written.
- What we read may hold escaped lone surrogates (JavaScript writes them when it cuts a text inside an emoji); orjson
  refuses those, so the slow path of the standard library reads them, and they become U+FFFD too.
"""

import json
from typing import Any

import orjson

JsonObject = dict[str, Any]


class Unencodable(ValueError):
    """We were asked to write something that is not JSON: our own fault, and named as such."""


class Undecodable(ValueError):
    """The bytes are not one JSON document. `kind` is a bounded label for counters."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def encode_line(document: object) -> bytes:
    """One JSON document and its newline."""
    try:
        return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return _encode_patiently(document)


def _encode_patiently(document: object) -> bytes:
    try:
        return orjson.dumps(without_surrogates(document), option=orjson.OPT_APPEND_NEWLINE)
    except (TypeError, RecursionError) as error:
        raise Unencodable(f"cannot be written as JSON: {error}") from error


def decode(line: bytes) -> Any:
    """The document of one line, or `Undecodable`."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return _decode_patiently(line)


def _decode_patiently(line: bytes) -> Any:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Undecodable("invalid_utf8") from error
    if "\\u" not in text:
        raise Undecodable("not_json")
    try:
        return without_surrogates(json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        raise Undecodable("not_json") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def without_surrogates(value: Any) -> Any:
    """The same value with every lone surrogate replaced by U+FFFD, in keys and in texts."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
        case list() | tuple():
            return [without_surrogates(item) for item in value]
        case _:
            return value
