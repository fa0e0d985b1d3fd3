"""How many values a JSON text holds, counted before anything is built from it."""

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.wire.json import VALUES_LIMIT, Undecodable, decode
from ostler.wire.rpc import Junk, Notification, Peer, Request
from ostler.wire.tally import ValueTally, has_more_values

TEXT = st.lists(st.sampled_from(["\\", '"', ",", "[", "{", "x", "é", "\n"]), max_size=8).map("".join)
JSON = st.recursive(
    TEXT | st.integers(0, 9), lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=40
)


def values_in(document: Any) -> int:
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return 1 + sum(map(values_in, inner))


def fits(text: bytes, limit: int, cuts: list[int]) -> bool:
    tally = ValueTally(limit)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return all(tally.add(text[start:end]) for start, end in itertools.pairwise(edges))


@given(JSON, st.lists(st.integers(0, 10_000)))
def test_n30_no_text_holds_more_values_than_are_counted_however_it_is_cut(document: Any, cuts: list[int]) -> None:
    text, count = orjson.dumps(document), values_in(document)
    assert fits(text, 2 * count, cuts), "each value is counted twice at most: by its bracket and by its comma"
    assert count < 4 or not fits(text, count - 2, cuts)


@pytest.mark.parametrize(
    "text",
    [b"[" + b"{}," * 1000 + b"0]", b"[" + b"0," * 1000 + b"0]", b"[" * 1001, b'["' + b'","' * 1000 + b'"]'],
    ids=["objects", "numbers", "brackets", "texts"],
)
def test_n30_many_tiny_values_are_too_many_before_they_are_built(text: bytes) -> None:
    assert has_more_values(text, 900)


def test_n30_quotes_that_nothing_parts_are_too_many_as_well() -> None:
    assert not ValueTally(100).add(b'"' * 401)


@pytest.mark.parametrize("text", ["a, [b], {c}" * 1000, '\\",' * 1000, "\\" * 1001, '"'])
def test_n30_a_long_text_is_one_value(text: str) -> None:
    assert not has_more_values(orjson.dumps([text]), 10)


def test_n31_a_line_of_tiny_values_is_junk_and_the_next_one_is_read() -> None:
    peer: Peer[None] = Peer()
    head, tail = b'{"jsonrpc":"2.0","id":7,"method":"ask","params":{"v":[', b"0]}}\n"
    flood = head + b"{}," * VALUES_LIMIT + tail
    junk, after = [*peer.receive(flood + b'{"jsonrpc":"2.0","method":"x"}\n')]
    assert isinstance(junk, Junk)
    assert (junk.kind, junk.reason) == ("too_many_values", "the message could not be read: too_many_values")
    assert junk.answer is not None
    assert orjson.loads(junk.answer)["id"] == 7
    assert isinstance(after, Notification)


def test_n31_as_many_values_as_are_allowed_are_read() -> None:
    peer: Peer[None] = Peer()
    line = b'{"jsonrpc":"2.0","id":7,"method":"ask","params":{"v":[' + b"0," * (VALUES_LIMIT - 10) + b"0]}}\n"
    assert [type(each) for each in peer.receive(line)] == [Request]


def test_n31_what_we_have_stored_ourselves_has_no_such_limit() -> None:
    text = b"[" + b"0," * VALUES_LIMIT + b"0]"
    assert len(decode(text)) == VALUES_LIMIT + 1
    with pytest.raises(Undecodable, match="too_many_values"):
        decode(text, values=VALUES_LIMIT)
