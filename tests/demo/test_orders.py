"""The language of the demo agent: which line is which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.demo.orders import READERS, DemoOrder, parse_orders


@pytest.mark.parametrize(
    ("text", "orders"),
    [
        ("hello", [DemoOrder("echo", "hello")]),
        ("", [DemoOrder("echo")]),
        (" \n\t", [DemoOrder("echo")]),
        ("a\r\n\r\nb", [DemoOrder("echo", "a"), DemoOrder("echo", "b")]),
        ("  !recall", [DemoOrder("echo", "  !recall")]),
        ("!", [DemoOrder("echo", "!")]),
        ("!recalled", [DemoOrder("echo", "!recalled")]),
        ("!recall\n!tools", [DemoOrder("recall"), DemoOrder("tools")]),
        ("!stream 12", [DemoOrder("stream", number=12)]),
        ("!sleep 0.5", [DemoOrder("sleep", number=0.5)]),
        ("!think  of it ", [DemoOrder("think", "of it")]),
        ("!call t", [DemoOrder("call", "t")]),
        ('!call t {"a": [1]}', [DemoOrder("call", "t", arguments={"a": [1]})]),
        ('!update kind {"a": 1}', [DemoOrder("update", "kind", arguments={"a": 1})]),
        ("!die", [DemoOrder("die", number=1)]),
        ("!die 0", [DemoOrder("die", number=0)]),
        ("!hang all", [DemoOrder("hang", "all")]),
        ("!bigline 40", [DemoOrder("bigline", number=40)]),
    ],
)
def test_lines_become_orders(text: str, orders: list[DemoOrder]) -> None:
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
