"""A transcript block comes from people too: whatever it holds, it is a transcript or it is not."""

import pytest

from ostler.wire.transcript import END, HEADER, parse_transcript


@pytest.mark.parametrize("quoted", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "NaN", "", '"open', "[]", '"a" "b"'])
def test_w37b_a_line_that_is_no_text_makes_the_block_ordinary_text(quoted: str) -> None:
    assert parse_transcript(f"{HEADER}\nuser: {quoted}\n{END}") is None
