"""Renders the doctor's report as a table, with the findings and fixes below it."""

from collections.abc import Sequence

from ostler.gateway.ops.console.amounts import milliseconds
from ostler.gateway.ops.console.console_text import table
from ostler.gateway.ops.doctor.report import AgentReport, Canary, Finding, Report, Severity

HEADS = ("AGENT", "VERSION", "START", "SESSION", "2ND SESSION", "TURN", "CANARY", "VERDICT")
MARKS = {Severity.NOTE: "note", Severity.WARNING: "WARNING", Severity.FAULT: "FAULT"}


def report_lines(report: Report) -> list[str]:
    """All lines of the report."""
    lines = table(HEADS, [cells(agent) for agent in report.agents]) if report.agents else ["no agent was looked at"]
    lines += finding_lines("this machine", report.machine)
    for agent in report.agents:
        if agent.installed or agent.wanted:
            lines += finding_lines(agent.provider, agent.findings)
    missing = [agent for agent in report.agents if not agent.installed and not agent.wanted]
    if missing:
        lines += ["", "not installed, and not asked for:"]
        lines += [f"  {agent.provider}: {agent.findings[0].fix}" for agent in missing]
    return [*lines, "", "all is well" if report.healthy else "something must be mended: see FAULT above"]


def cells(agent: AgentReport) -> list[str]:
    """The cells of an agent, in the order of `HEADS`."""
    spent = [agent.start_ms, agent.session_ms, agent.second_session_ms, agent.turn_ms]
    times = ["-" if value is None else milliseconds(value) for value in spent]
    canary = "-" if agent.canary is Canary.NOT_RUN else agent.canary.value
    return [agent.provider, agent.version or "-", *times, canary, verdict(agent)]


def verdict(agent: AgentReport) -> str:
    """One word for the state of an agent."""
    if not agent.installed:
        return "MISSING" if agent.wanted else "not installed"
    if not agent.healthy:
        return "FAULT"
    return "warnings" if any(finding.level is Severity.WARNING for finding in agent.findings) else "good"


def finding_lines(where: str, findings: Sequence[Finding]) -> list[str]:
    """The findings, each with its fix."""
    lines = []
    for finding in findings:
        lines += ["", f"{where}: {MARKS[finding.level]}: {finding.what}"]
        if finding.fix:
            lines.append(f"  do: {finding.fix}")
    return lines
