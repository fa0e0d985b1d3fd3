"""JSON as it crosses a pipe: strict in what we write, tolerant in what we read.

Rules:
- We write one document on one line, always valid UTF-8: two real agents exit on a single bad byte, and with them every
  session they hold. A lone surrogate in a text becomes U+FFFD before it is written. NaN and the infinities become null,
  as JavaScript writes them.
- Input may contain escaped lone surrogates (JavaScript writes them when it cuts a text inside an emoji) or begin with a
  byte order mark (.NET consoles). orjson refuses both, so they are repaired in the bytes and parsed again. One parser
  reads everything: a second one would differ in depth, in numbers and in what it raises.
- Input from outside is refused before it is built if it contains more than `VALUES_LIMIT` values: a line of
  `[{},{},...` may contain millions, built in one go while all other work waits. Our own store has no such limit.
- Input nested deeper than `DEPTH_LIMIT` is refused: Python cannot print, compare or copy a value nested 1000 deep, and
  orjson writes no more than 254 levels. With the limit below that, a parsed value can be wrapped and written again.
"""

import re
from typing import Any, Literal, TypeAlias

import orjson

from ostler.wire.tally import has_more_values

JsonObject = dict[str, Any]
DecodeFault: TypeAlias = Literal["invalid_utf8", "not_json", "too_deep", "too_many_values"]

VALUES_LIMIT = 100_000
DEPTH_LIMIT = 200
WRITABLE_DEPTH = 254
FEW_BRACKETS = 16

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Escaped backslashes (so that the letters in `\\ud800` are left alone), a pair, or a lone half.
_HALVES = re.compile(
    rb"(?:\\\\)+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


class Unencodable(ValueError):
    """The caller passed a value that is not JSON: a defect of our own."""


class Undecodable(ValueError):
    """The bytes are not one JSON document. `kind` is a bounded label for counters."""

    def __init__(self, kind: DecodeFault) -> None:
        super().__init__(kind)
        self.kind: DecodeFault = kind


def encode_line(document: object) -> bytes:
    """One JSON document and its newline. Raises `Unencodable`."""
    try:
        return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return _encode_patiently(document)


def _encode_patiently(document: object) -> bytes:
    try:
        return orjson.dumps(without_surrogates(document), option=orjson.OPT_APPEND_NEWLINE)
    except (TypeError, RecursionError) as error:
        raise Unencodable(f"cannot be written as JSON: {error}") from error


def decode(line: bytes, *, values: int | None = None) -> Any:
    """The document of one line. `values`: how many it may contain. Raises `Undecodable`."""
    if values is not None and has_more_values(line, values):
        raise Undecodable("too_many_values")
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        document = _decode_patiently(line)
    # Hardly any line is long enough to be deep, and hardly any long one has enough brackets.
    if len(line) > 2 * DEPTH_LIMIT and _has_many_brackets(line) and _is_deep(document):
        raise Undecodable("too_deep")
    return document


def _decode_patiently(line: bytes) -> Any:
    mended = line.removeprefix(BYTE_ORDER_MARK)
    if b"\\u" in mended:
        mended = _HALVES.sub(_mend, mended)
    try:
        return orjson.loads(mended)
    except orjson.JSONDecodeError as error:
        raise Undecodable("too_deep" if error.msg.startswith("depth limit") else _fault_of(line)) from error


def _mend(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] is None else b"\\ufffd"


def _fault_of(line: bytes) -> DecodeFault:
    try:
        line.decode()
    except UnicodeDecodeError:
        return "invalid_utf8"
    return "not_json"


def _has_many_brackets(line: bytes) -> bool:
    """Whether there are enough brackets for a depth over the limit. `find` skips long texts, where `count` reads every
    byte.
    """
    for bracket in (b"[", b"{"):
        at = -1
        for _ in range(FEW_BRACKETS):
            at = line.find(bracket, at + 1)
            if at < 0:
                break
        else:
            return line.count(b"[") + line.count(b"{") > DEPTH_LIMIT
    return False


def _is_deep(document: Any) -> bool:
    """Measured by writing it, wrapped in as many levels as bring the limit to the writable depth: a walk in Python is
    slower.
    """
    for _ in range(WRITABLE_DEPTH - DEPTH_LIMIT):
        document = [document]
    try:
        orjson.dumps(document)
    except TypeError:
        return True
    return False


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
