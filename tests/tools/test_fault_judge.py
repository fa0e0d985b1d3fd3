"""The judge of the faults can find what it is there to find: each kind of harm, planted."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.database import change
from tools.faults import canary
from tools.faults.conversation import Conversation
from tools.faults.judge import Row, Verdict, read_folder, weigh

Harm = Callable[[list[Row]], None]


def asked(conversation: int, turn: int) -> Row:
    return Row(f"s{conversation}", "user", canary.word(conversation, turn, canary.QUESTION))


def told(conversation: int, turn: int) -> Row:
    return Row(f"s{conversation}", "assistant", f"echo: {canary.word(conversation, turn, canary.QUESTION)}")


def found(conversation: int, turn: int) -> Row:
    return Row(f"s{conversation}", "tool", canary.word(conversation, turn, canary.RESULT))


def stored() -> list[Row]:
    """Two conversations of two turns each, the second with a tool."""
    return [row for one in (1, 12) for row in (asked(one, 1), told(one, 1), asked(one, 2), found(one, 2), told(one, 2))]


def clients() -> list[Conversation]:
    """Who were told that all of it is there."""
    both = [Conversation(1), Conversation(12)]
    for one in both:
        one.heard, one.answered, one.results = {1, 2}, {1, 2}, {2}
    return both


def remove(row: Row) -> Harm:
    return lambda rows: rows.remove(row)


def repeat(row: Row) -> Harm:
    return lambda rows: rows.append(row)


def put(row: Row) -> Harm:
    return lambda rows: rows.append(row)


def swap(rows: list[Row]) -> None:
    rows[5], rows[7] = rows[7], rows[5]


def kinds(verdict: Verdict) -> set[str]:
    """Which kinds of harm it names."""
    return {kind for kind, findings in verdict.by_kind().items() if findings}


def test_what_is_as_it_was_told_is_no_finding() -> None:
    verdict = weigh(clients(), stored(), [("s12", canary.word(12, 2, canary.ARGUMENT))])
    assert verdict.findings == []
    assert verdict.looked_at["acknowledged questions"] == 4
    assert verdict.looked_at["stored rows and files"] == 11


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (remove(asked(12, 2)), "lost"),
        (remove(found(1, 2)), "lost"),
        (remove(told(1, 1)), "lost"),
        (repeat(asked(1, 2)), "doubled"),
        (repeat(found(12, 2)), "doubled"),
        (swap, "disordered"),
        (put(Row("s12", "assistant", f"echo: {canary.word(1, 1, canary.RESULT)}")), "leaked"),
        (put(Row("elsewhere", "tool", canary.word(1, 1, canary.RESULT))), "leaked"),
    ],
)
def test_h13_w01a_planted_harm_is_found(harm: Harm, kind: str) -> None:
    rows = stored()
    harm(rows)
    assert kind in kinds(weigh(clients(), rows))


def test_w01a_a_word_that_leaked_into_a_mirror_or_a_response_is_found() -> None:
    assert kinds(weigh(clients(), stored(), [("s1", canary.word(12, 2, canary.ARGUMENT))])) == {"leaked"}


def test_w01a_a_client_that_is_told_the_word_of_another_says_so() -> None:
    one = Conversation(1)
    one.look(f"echo: {canary.word(1, 7, canary.QUESTION)}")
    assert one.wrong == []
    one.look(f"echo: {canary.word(12, 7, canary.RESULT)}")
    assert "words of [12]" in one.wrong[0]


def test_the_rows_are_those_of_a_gateways_folder(tmp_path: Path) -> None:
    tables = (
        "create table messages (id integer primary key, session_id text, role text, text text, items text)",
        "create table responses (session_id text, body text, input_items text)",
        "create table parked_calls (session_id text, arguments text, output text)",
        "insert into messages values (2, 's1', 'assistant', 'b', '[]'), (1, 's1', 'user', 'a', '[]')",
        "insert into parked_calls values ('s1', 'c', null)",
    )
    change(tmp_path / "ostler.db", *tables)
    rows, beside, damaged = read_folder(tmp_path)
    assert names(rows) == [("s1", "user"), ("s1", "assistant")]
    assert beside == [("s1", "c")]
    assert damaged == []


def names(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [(row.session, row.role) for row in rows]
