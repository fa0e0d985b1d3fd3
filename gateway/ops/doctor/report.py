"""What the doctor finds, as values: one report for each agent, one for the machine, one verdict.

Rules: a finding that must be mended says how. An agent that is not installed and that nobody asked for is no fault.
"""

from dataclasses import asdict, dataclass, field
from enum import StrEnum

from ostler.wire.json import JsonObject


class Severity(StrEnum):
    """How bad it is."""

    NOTE = "note"
    WARNING = "warning"
    FAULT = "fault"


class Canary(StrEnum):
    """What became of the two-session test."""

    PRIVATE = "private"
    """Neither session saw the other's word nor reached its tool, and both saw their own."""
    LEAK = "leak"
    UNPROVEN = "unproven"
    """Nothing was seen, but the agent did not show either that it could have shown it."""
    NOT_RUN = "not_run"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing, and what to do about it."""

    level: Severity
    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One provider."""

    provider: str
    title: str
    wanted: bool
    """The configuration or the command line names it."""
    installed: bool
    program: str = ""
    version: str = ""
    measured: str = ""
    """The version that its declaration was measured with."""
    model: str = ""
    start_ms: float | None = None
    session_ms: float | None = None
    second_session_ms: float | None = None
    turn_ms: float | None = None
    canary: Canary = Canary.NOT_RUN
    findings: tuple[Finding, ...] = ()

    @property
    def healthy(self) -> bool:
        """Nothing that must be mended."""
        return not any(finding.level is Severity.FAULT for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Report:
    """The whole."""

    machine: tuple[Finding, ...]
    agents: tuple[AgentReport, ...] = field(default=())

    @property
    def healthy(self) -> bool:
        """The exit code."""
        return all(agent.healthy for agent in self.agents) and not any(
            finding.level is Severity.FAULT for finding in self.machine
        )

    def as_json(self) -> JsonObject:
        """For programs."""
        agents = [{**asdict(agent), "healthy": agent.healthy} for agent in self.agents]
        machine = [asdict(finding) for finding in self.machine]
        return {"object": "doctor.report", "healthy": self.healthy, "machine": machine, "agents": agents}
