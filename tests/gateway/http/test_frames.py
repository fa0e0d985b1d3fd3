"""A piece in its mould is the frame that would have been written at once, whatever stands around it."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from ostler.gateway.http.frames import chunk, chunks_of, frame, frames_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ['"delta":""', '\\"delta":""', "%d", "\n\n"]
)
FIELDS = st.dictionaries(TEXTS.filter(lambda name: name != "delta"), TEXTS | st.integers(0, 9) | st.lists(TEXTS))


def event(raw: bytes) -> tuple[bytes, dict[str, object]]:
    head, _, data = raw.partition(b"data: ")
    assert raw.endswith(b"\n\n")
    assert raw.count(b"\n") == head.count(b"\n") + 2
    return head, orjson.loads(data)


@given(FIELDS, st.integers(0, 2**53), TEXTS)
def test_a_numbered_piece_is_its_frame(fields: dict[str, object], number: int, piece: str) -> None:
    cast = frames_of("some.delta", fields, "delta")
    assert event(cast(number, piece)) == event(frame("some.delta", number, {**fields, "delta": piece}))


@given(FIELDS, st.integers(0, 9), TEXTS)
def test_a_piece_of_a_chunk_is_the_chunk(fields: dict[str, object], number: int, piece: str) -> None:
    cast = chunks_of({**fields, "choices": [{"delta": ""}], "z": 1}, "delta")
    assert event(cast(number, piece)) == event(chunk({**fields, "choices": [{"delta": piece}], "z": 1}))
