"""pytest's side of `make agents`: which agent the contract suite runs against, and one line of JSON for each outcome.

Loaded with `-p tests.agents.plugin`; without it the suite runs against the demo agent.
"""

import json
from pathlib import Path

import pytest

OPTIONS = ("--agent", "--agent-install", "--agent-llm", "--agent-report", "--agent-home")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("agents", "one real agent CLI")
    for name in OPTIONS:
        group.addoption(name, default=None)


def pytest_configure(config: pytest.Config) -> None:
    report = config.getoption("--agent-report")
    if report is not None:
        config.pluginmanager.register(Outcomes(Path(report)), "agent-outcomes")


class Outcomes:
    """Writes what became of each check, as it becomes known."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._spent: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._spent[report.nodeid] = self._spent.get(report.nodeid, 0.0) + report.duration
        if report.when == "call" or (report.when == "setup" and not report.passed) or report.failed:
            why = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
            self._write(report.nodeid, report.outcome, why)

    def _write(self, nodeid: str, outcome: str, why: str) -> None:
        check = nodeid.rpartition("::")[2].partition("[")[0].removeprefix("test_")
        line = {"check": check, "outcome": outcome, "ms": round(self._spent[nodeid] * 1e3), "why": why}
        with self._report.open("a") as lines:
            lines.write(json.dumps(line) + "\n")
