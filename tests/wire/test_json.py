"""JSON on a pipe: what we write is always clean, what we read is mended where its meaning is plain (W37b, W37c)."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ostler.wire.json import (
    DEPTH_LIMIT,
    WRITABLE_DEPTH,
    Undecodable,
    Unencodable,
    decode,
    encode_line,
    without_surrogates,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
# Escapes and halves, densely: plain random text hardly ever holds two of them side by side.
DENSE_TEXT = st.lists(
    st.sampled_from(["\ud83d", "\ude00", "\udfff", "\ud800", "\\", "u", "d800", "\\ud83d", '"', "x", "\ufeff"])
).map("".join)
TEXT = ANY_TEXT | DENSE_TEXT
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


def mended(text: str) -> str:
    """The slow oracle: join the halves that belong together, replace the others."""
    out: list[str] = []
    for char in text:
        if out and "\ud800" <= out[-1] <= "\udbff" and "\udc00" <= char <= "\udfff":
            out[-1] = chr(0x10000 + ((ord(out[-1]) - 0xD800) << 10) + ord(char) - 0xDC00)
        else:
            out.append(char)
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in out)


def mended_all(value: Any) -> Any:
    match value:
        case str():
            return mended(value)
        case list():
            return [mended_all(item) for item in value]
        case dict():
            return {mended(key): mended_all(item) for key, item in value.items()}
        case _:
            return value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@given(JSON)
def test_w37c_what_is_written_is_one_clean_line_whatever_the_text(document: Any) -> None:
    line = encode_line(document)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    line.decode("utf-8")
    assert decode(line) == mended_all(document)


@given(JSON)
def test_w37c_what_javascript_writes_is_read_with_halves_mended(document: Any) -> None:
    assert decode(json.dumps(document, allow_nan=False).encode()) == mended_all(document)


@given(TEXT)
@example("\ud83d\ud83d\ude00\ude00")
def test_w37c_the_two_ways_of_mending_agree(text: str) -> None:
    assert without_surrogates(text) == mended(text)
    assert decode(json.dumps(text).encode()) == mended(text)


@pytest.mark.parametrize(
    ("line", "document"),
    [
        (rb'"cut \ud83d"', "cut \ufffd"),
        (rb'"\ude00 cut"', "\ufffd cut"),
        (rb'"\uD83D\uDE00"', "\U0001f600"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\\ud83d"', r"\ud83d"),
        (rb'"\\ud83d \ud83d"', "\\ud83d \ufffd"),
        (rb'"\\\ud83d\\\\\ude00"', "\\\ufffd\\\\\ufffd"),
        (rb'{"\ud83d": "\n\"\ud83d\""}', {"\ufffd": '\n"\ufffd"'}),
        (b'\xef\xbb\xbf{"id":1}', {"id": 1}),
        (b'\xef\xbb\xbf"\\ud83d"', "\ufffd"),
        (b'{"a":1}\r', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (rb'"\u0000"', "\0"),
        (b"1" * 30, float("1" * 30)),
        (rb'["\ud83d", 111111111111111111111111111111]', ["\ufffd", float("1" * 30)]),
    ],
)
def test_w37b_w37c_patience(line: bytes, document: object) -> None:
    assert decode(line) == document


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"npm warn deprecated", "not_json"),
        (b"", "not_json"),
        (b"{", "not_json"),
        (b"NaN", "not_json"),
        (rb'[NaN, "\ud83d"]', "not_json"),
        (b"Infinity", "not_json"),
        (b"1e999", "not_json"),
        (b'\x00{"a":1}', "not_json"),
        (b'{"a":"\x00"}', "not_json"),
        (b"{}\xef\xbb\xbf", "not_json"),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", "not_json"),
        (b"{'a': 1}", "not_json"),
        (rb'"\ud83"', "not_json"),
        (rb'"\u"', "not_json"),
        (b"[" * 10_000 + b"]" * 10_000, "too_deep"),
        (b"[" * 1000 + b"]" * 1000, "too_deep"),
        (b'["\\ud83d",' * 10_000 + b"1" + b"]" * 10_000, "too_deep"),
        (b'["\\ud83d",' * 300 + b"1" + b"]" * 300, "too_deep"),
        (b'{"a":' * 10_000, "too_deep"),
        (b'{"a":' * 300, "not_json"),
        (b'"\xff"', "invalid_utf8"),
        (b'"\xc3"', "invalid_utf8"),
        (b'"\xed\xa0\xbd"', "invalid_utf8"),
        (b'"\xc0\xaf"', "invalid_utf8"),
        (b"\x80", "invalid_utf8"),
        (b'"\xff \\ud83d"', "invalid_utf8"),
    ],
)
def test_w37b_w37c_what_is_not_json_has_one_of_two_names(line: bytes, kind: str) -> None:
    with pytest.raises(Undecodable) as caught:
        decode(line)
    assert caught.value.kind == kind


@given(st.binary(max_size=200))
def test_w37b_no_bytes_raise_anything_else(line: bytes) -> None:
    with contextlib.suppress(Undecodable):
        decode(line)


@pytest.mark.parametrize(
    "document",
    [{1, 2}, b"bytes", {1: "a"}, 2**64, nested(300), nested(10_000), {"a": object(), "b": "\ud83d"}],
    ids=["set", "bytes", "key", "int", "deep", "deeper", "object"],
)
def test_what_we_cannot_write_is_our_own_typed_fault(document: object) -> None:
    with pytest.raises(Unencodable, match="cannot be written as JSON"):
        encode_line(document)


def test_a_cycle_is_our_own_typed_fault() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(Unencodable):
        encode_line(cycle)


def test_nan_is_written_as_javascript_writes_it() -> None:
    assert encode_line([float("nan"), float("inf"), 1.0]) == b"[null,null,1.0]\n"


def test_w37c_mending_reaches_keys_lists_and_tuples() -> None:
    assert encode_line({"k\ud83d": ["\ud83d", ("\ude00", 1)]}) == '{"k\ufffd":["\ufffd",["\ufffd",1]]}\n'.encode()


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"\\ud83d":', b"}]")])
def test_w37b_what_can_be_read_can_be_wrapped_printed_and_written(opening: bytes, closing: bytes) -> None:
    levels = DEPTH_LIMIT // (opening.count(b"[") + opening.count(b"{"))
    document = decode(opening * levels + b"1" + closing * levels)
    for _ in range(WRITABLE_DEPTH - DEPTH_LIMIT):
        document = [document]
    assert encode_line(document)
    assert document == document[:]
    assert repr(document)
    with pytest.raises(Undecodable) as caught:
        decode(b"[" + opening * levels + b"1" + closing * levels + b"]")
    assert caught.value.kind == "too_deep"


def test_many_brackets_are_not_depth() -> None:
    assert len(decode(b"[" + b"[{}]," * 10_000 + b'"[[["]')) == 10_001
    assert decode(b'["' + b"[{" * 10_000 + b'"]') == ["[{" * 10_000]
    assert decode(b"[" + b"{}," * 10_000 + b"1]")[-1] == 1
