"""The doctor's findings as values: a report for each agent, findings about the machine, and one verdict.

Rules: a finding that must be fixed says how. An agent that is not installed is no fault unless the configuration or the
command line names it.
"""

from dataclasses import asdict, dataclass, field
from enum import StrEnum

from ostler.wire.json import JsonObject


class Severity(StrEnum):
    """How serious a finding is; only FAULT makes the doctor fail."""

    NOTE = "note"
    WARNING = "warning"
    FAULT = "fault"


class Canary(StrEnum):
    """The result of the two-session canary."""

    PRIVATE = "private"
    """Neither session saw the other's word or reached its tool, and both saw their own."""
    LEAK = "leak"
    UNPROVEN = "unproven"
    """Nothing leaked, but the agent did not show that it could have."""
    NOT_RUN = "not_run"


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation, and how to fix it."""

    level: Severity
    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The findings and measurements of one provider."""

    provider: str
    title: str
    wanted: bool
    """Whether the configuration or the command line names the provider."""
    installed: bool
    program: str = ""
    version: str = ""
    measured: str = ""
    """The version that the provider's declaration was measured with."""
    model: str = ""
    start_ms: float | None = None
    session_ms: float | None = None
    second_session_ms: float | None = None
    turn_ms: float | None = None
    canary: Canary = Canary.NOT_RUN
    findings: tuple[Finding, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether no finding is a fault."""
        return not any(finding.level is Severity.FAULT for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of the whole examination."""

    machine: tuple[Finding, ...]
    agents: tuple[AgentReport, ...] = field(default=())

    @property
    def healthy(self) -> bool:
        """Whether neither the machine nor an agent has a fault; decides the exit code."""
        return all(agent.healthy for agent in self.agents) and not any(
            finding.level is Severity.FAULT for finding in self.machine
        )

    def as_json(self) -> JsonObject:
        """The report for programs."""
        agents = [{**asdict(agent), "healthy": agent.healthy} for agent in self.agents]
        machine = [asdict(finding) for finding in self.machine]
        return {"object": "doctor.report", "healthy": self.healthy, "machine": machine, "agents": agents}
