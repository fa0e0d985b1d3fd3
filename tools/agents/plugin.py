"""pytest's side of `make agents`: which agent the contract suite runs against, and one line of JSON for each outcome.

Loaded with `-p tools.agents.plugin`; without it the suite runs against the demo agent.
"""

import json
import re
from pathlib import Path

import pytest

LONGEST = 3000
OPTIONS = ("--agent", "--agent-install", "--agent-llm", "--agent-report", "--agent-home", "--agent-log")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("agents", "one real agent CLI")
    for name in OPTIONS:
        group.addoption(name, default=None)


def pytest_configure(config: pytest.Config) -> None:
    report = config.getoption("--agent-report")
    if report is not None:
        config.pluginmanager.register(Outcomes(Path(report), config.getoption("--agent")), "agent-outcomes")


class Outcomes:
    """Writes what became of each check, as it becomes known."""

    def __init__(self, report: Path, agent: str) -> None:
        self._report = report
        self._agent = agent
        self._spent: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._spent[report.nodeid] = self._spent.get(report.nodeid, 0.0) + report.duration
        if report.when == "call" or (report.when == "setup" and not report.passed) or report.failed:
            self._write(report.nodeid, report.outcome, reason(report))

    def _write(self, nodeid: str, outcome: str, why: str) -> None:
        name, _, variant = nodeid.rpartition("::")[2].removesuffix("]").partition("[")
        variant = variant.replace(self._agent, "").strip("-")
        check = name.removeprefix("test_") + (f" {variant}" if variant else "")
        line = {"check": check, "outcome": outcome, "ms": round(self._spent[nodeid] * 1e3), "why": why}
        with self._report.open("a") as lines:
            lines.write(json.dumps(line) + "\n")


def reason(report: pytest.TestReport) -> str:
    """Why a check was skipped; or where it failed, without the frames of test machinery."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    if not report.failed:
        return ""
    frames = re.split(r"(?=^  File )", report.longreprtext, flags=re.MULTILINE)
    ours = [frame for frame in frames if "site-packages" not in frame.partition("\n")[0] and "asyncio/" not in frame]
    logs = [text for name, text in report.sections if "log" in name]
    return "".join([*ours, *logs])[-LONGEST:]
