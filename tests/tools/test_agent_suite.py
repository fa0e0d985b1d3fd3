"""What `make agents` makes of the outcomes it reads."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tools.agents.__main__ import counted, parse, table
from tools.agents.suite import Outcome, Verdict, read_report

GOOD = Outcome("handshake", "passed", 12, "")
BAD = Outcome("session", "failed", 30, "AssertionError: no session")
OMITTED = Outcome("prompt", "skipped", 1, "declared as mute")


def verdict(*outcomes: Outcome, code: int = 0, output: str = "") -> Verdict:
    return Verdict("paper", code, 1.5, output, outcomes)


def test_a_verdict_is_good_when_something_ran_and_nothing_failed() -> None:
    assert verdict(GOOD, OMITTED).ok
    assert not verdict(GOOD, BAD, code=1).ok
    assert not verdict(OMITTED).ok
    assert not verdict(code=2).ok


def test_a_table_tells_each_check_and_why_it_failed() -> None:
    text = table(verdict(GOOD, BAD, OMITTED, code=1))
    assert "paper: 1 failed, 1 passed, 1 skipped in 1.5 s" in text
    assert "declared as mute" in text
    assert "AssertionError: no session" in text


def test_a_run_that_died_before_its_first_check_shows_its_output() -> None:
    assert "ImportError: no module" in table(verdict(code=4, output="ImportError: no module"))


def test_a_check_that_failed_after_it_passed_has_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    lines = [{"check": "handshake", "outcome": outcome, "ms": 1, "why": ""} for outcome in ("failed", "passed")]
    report.write_text("\n".join(map(json.dumps, lines)))
    assert [outcome.outcome for outcome in read_report(report)] == ["failed"]
    assert read_report(tmp_path / "absent") == ()


def test_counts_name_what_failed_first() -> None:
    assert counted(Counter(passed=2, failed=1)) == "1 failed, 2 passed"
    assert counted(Counter()) == ""


def test_an_agent_that_is_not_known_is_an_error() -> None:
    assert parse(["gemini-acp", "-k", "cancel"]).chosen == "cancel"
    with pytest.raises(SystemExit):
        parse(["gemini"])
