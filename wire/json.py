"""JSON as it crosses a pipe: strict on what we write, patient with what we read.

Rules:
- What we write is one document on one line, valid UTF-8 always: two real agents exit on a single bad byte, and with
  them every session they hold. A lone surrogate in a text becomes U+FFFD before it is written. NaN and the infinities
  become null, as JavaScript writes them.
- What we read may hold escaped lone surrogates (JavaScript writes them when it cuts a text inside an emoji) or begin
  with a byte order mark (.NET consoles); orjson refuses both, so they are mended in the bytes and read again. One
  parser reads everything: a second one would differ in depth, in numbers and in what it raises.
- What a stranger sends is refused before it is built if it holds more than `VALUES_LIMIT` values: a line of
  `[{},{},...` may hold millions, built in one go while everybody else waits. Our own store has no such limit.
- What is nested deeper than `DEPTH_LIMIT` is refused: Python cannot print, compare or copy a value nested 1000 deep,
  and orjson writes no more than 254 levels. With the limit below that, what was read can be wrapped and written again.
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
    """We were asked to write something that is not JSON: our own fault, and named as such."""


class Undecodable(ValueError):
    """The bytes are not one JSON document. `kind` is a bounded label for counters."""

    def __init__(self, kind: DecodeFault) -> None:
        super().__init__(kind)
        self.kind: DecodeFault = kind


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


def decode(line: bytes, *, values: int | None = None) -> Any:
    """The document of one line, or `Undecodable`. `values`: how many it may hold."""
    if values is not None and has_more_values(line, values):
        raise Undecodable("too_many_values")
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        document = _decode_patiently(line)
    # Hardly any line is long enough to be deep, and hardly any long one has the brackets for it.
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
    """Whether there are enough for a depth over the limit. `find` leaps over long texts, where `count` walks."""
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
    """Measured by writing it, with what is missing to the writable depth put around it: a walk in Python is slower."""
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
