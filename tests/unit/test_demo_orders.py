"""The language of the demo agent: which line is which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.pool.demo.orders import READERS, Order, parse_orders


@pytest.mark.parametrize(
    ("text", "orders"),
    [
        ("hello", [Order("echo", "hello")]),
        ("", [Order("echo")]),
        (" \n\t", [Order("echo")]),
        ("a\r\n\r\nb", [Order("echo", "a"), Order("echo", "b")]),
        ("  !recall", [Order("echo", "  !recall")]),
        ("!", [Order("echo", "!")]),
        ("!recalled", [Order("echo", "!recalled")]),
        ("!recall\n!tools", [Order("recall"), Order("tools")]),
        ("!stream 12", [Order("stream", number=12)]),
        ("!sleep 0.5", [Order("sleep", number=0.5)]),
        ("!think  of it ", [Order("think", "of it")]),
        ("!call t", [Order("call", "t")]),
        ('!call t {"a": [1]}', [Order("call", "t", arguments={"a": [1]})]),
        ('!update kind {"a": 1}', [Order("update", "kind", arguments={"a": 1})]),
        ("!die", [Order("die", number=1)]),
        ("!die 0", [Order("die", number=0)]),
        ("!hang all", [Order("hang", "all")]),
        ("!bigline 40", [Order("bigline", number=40)]),
    ],
)
def test_lines_become_orders(text: str, orders: list[Order]) -> None:
    assert parse_orders(text) == orders


@pytest.mark.parametrize(
    "line",
    [
        "!stream",
        "!stream -1",
        "!stream ٣",
        "!stream 99999999999",
        "!sleep nan",
        "!sleep inf",
        "!sleep -1",
        "!bigline 5000",
        "!call",
        "!call t [1]",
        "!call t {",
        "!call t " + "[" * 100_000,
        "!die 256",
        "!hang some",
        "!recall now",
    ],
)
def test_a_wrong_argument_is_refused_by_name(line: str) -> None:
    [order] = parse_orders(line)
    assert order.verb == "refuse"
    assert order.text.startswith(line.split(maxsplit=1)[0])


@given(st.lists(st.sampled_from([*READERS, "x", " ", "{}", "1", "\n"])).map(" ".join))
def test_every_line_gives_one_order(text: str) -> None:
    lines = [line for line in text.split("\n") if line.strip()]
    assert len(parse_orders(text)) == max(1, len(lines))
