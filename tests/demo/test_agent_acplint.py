"""acplint against the demo agent: what it finds, and what it gets wrong about the protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.demo.launch import command_line

if TYPE_CHECKING:
    from acplint.report import ConformanceReport

DIALECT = str(Path(__file__).parents[1] / "support" / "acplint_dialect.py")
# Without the four that only wait ten seconds for requests which this agent never makes.
CATEGORIES = [
    "initialization",
    "authentication",
    "session_lifecycle",
    "streaming",
    "session_modes",
    "config_options",
    "cancel",
    "stress",
    "schema_validation",
]
# acplint 0.1.0 against the official schema: it wants the version as a string, sends `content` for `prompt`
# (and so gets an error, no update and no stop reason).
CONTRADICTIONS = {
    "initialize_v1",
    "protocol_version_returned",
    "schema_initialize",
    "session_update_received",
    "agent_message_chunk_received",
    "prompt_stop_reason",
}


def lint(command: list[str], cwd: Path) -> ConformanceReport:
    from acplint.runner import ConformanceRunner

    return ConformanceRunner(command, cwd=str(cwd), categories=CATEGORIES).run_all()


def unhappy(report: ConformanceReport) -> dict[str, str | None]:
    return {result.name: result.message for result in report.results if not result.passed}


def test_acplint_finds_nothing_once_it_speaks_the_official_schema(tmp_path: Path) -> None:
    agent = command_line(["--state-dir", str(tmp_path / "state")])
    report = lint([sys.executable, DIALECT, *agent], tmp_path)
    assert len(report.results) > 30
    assert unhappy(report) == {}


def test_acplint_as_it_is_objects_only_to_the_official_schema(tmp_path: Path) -> None:
    report = lint(command_line(["--state-dir", str(tmp_path / "state")]), tmp_path)
    assert set(unhappy(report)) == CONTRADICTIONS
