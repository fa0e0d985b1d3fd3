"""Tries one agent: a cold start in a pool of its own, two sessions, the canary, and a clean end.

Rules: the agent gets the same command that the gateway would use. It works in a new, empty folder. No process started
here outlives the trial, and the trial has a time limit besides those of the pool. Measurements are reported however the
trial ends.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ostler.bridge.errors import BridgeError
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.gateway.ops.doctor.canary import TOOLS, Bird, sing
from ostler.gateway.ops.doctor.report import AgentReport, Finding, Severity
from ostler.pool.agent.connection import STDERR_LINES, AgentConnection
from ostler.pool.embed import open_pool
from ostler.pool.errors import PoolError
from ostler.pool.keys import TransportKey
from ostler.pool.launch.configuration import PoolSettings
from ostler.pool.permission import allow
from ostler.pool.pool import TransportPool

MILLISECONDS = 1000.0


@dataclass(frozen=True, slots=True)
class Bench:
    """The settings and dependencies of a trial."""

    folder: Path
    settings: PoolSettings
    environ: Mapping[str, str]
    clock: Callable[[], float]
    word: Callable[[], str]
    tell: Callable[[str], None]
    patience: float
    canary: bool


@dataclass(slots=True)
class TrialProgress:
    """How far a trial has come. What is known so far is reported, however the trial ends."""

    report: AgentReport
    doing: str = ""
    connection: AgentConnection | None = None
    """The connection to the agent, once it has started."""

    def begin(self, doing: str, bench: Bench, known: str = "") -> None:
        """Record and announce the next step; `known` is a result of the previous one."""
        self.doing = doing
        bench.tell(f"{known}{doing}")

    @property
    def last_text(self) -> str:
        """The end of the agent's stderr, with secrets redacted."""
        said = [] if self.connection is None else self.connection.process.stderr_tail(STDERR_LINES)
        return "" if not said else f"; last stderr lines: {' | '.join(said)}"


async def try_agent(report: AgentReport, bench: Bench) -> AgentReport:
    """Run the trial; return the report with its measurements and findings."""
    progress = TrialProgress(report)
    try:
        async with asyncio.timeout(bench.patience), stage(bench) as pool:
            await measure(pool, progress, bench)
    except TimeoutError:
        text = f"it was not done within {bench.patience:.0f} s, while {progress.doing}{progress.last_text}"
        fix = "see whether its key and model are good and try it by hand; --patience gives it longer"
        return worse(progress.report, Finding(Severity.FAULT, text, fix))
    except (PoolError, BridgeError) as error:
        fix = "mend what the message names, then run this again"
        return worse(progress.report, Finding(Severity.FAULT, str(error), fix))
    return progress.report


@asynccontextmanager
async def stage(bench: Bench) -> AsyncIterator[TransportPool]:
    """A pool and a bridge for one trial."""
    bridge = Bridge(BridgeSettings(data_directory=bench.folder))
    await bridge.start()
    try:
        settings = replace(bench.settings, enabled=True, warm=(), spares={}, roots=(), fallback=False)
        runtime = bench.folder / "run"
        environ = {name: value for name, value in bench.environ.items() if name != "OSTLER_TRANSPORT_POOL_ENABLED"}
        async with open_pool(settings, runtime_dir=runtime, environ=environ, tool_port=bridge, policy=allow) as pool:
            yield pool
    finally:
        await bridge.stop()


async def measure(pool: TransportPool, progress: TrialProgress, bench: Bench) -> None:
    """Start the agent, open two sessions, and run the canary."""
    report = progress.report
    work = bench.folder / "work"
    work.mkdir()
    key = TransportKey(report.provider, report.model, str(work))
    progress.begin("starting it cold", bench)
    async with await pool.lease(key, tools=TOOLS, owner="one") as first:
        progress.connection = first.transport.connection
        started = progress.report = replace(
            report,
            start_ms=round(first.waited.spawn * MILLISECONDS, 1),
            session_ms=round(first.waited.session_new * MILLISECONDS, 1),
            version=first.transport.info.version or report.version,
        )
        progress.begin("opening a second session", bench, f"up after {started.start_ms:.0f} ms; ")
        began = bench.clock()
        async with await pool.lease(key, tools=TOOLS, owner="two") as second:
            took = (bench.clock() - began) * MILLISECONDS
            progress.report = replace(started, second_session_ms=round(took, 1))
            if bench.canary:
                progress.begin("asking both sessions for their own word and tool", bench)
                birds = (Bird(first, bench.word(), bench.word()), Bird(second, bench.word(), bench.word()))
                progress.report = await heard(birds, progress.report, bench)


async def heard(birds: tuple[Bird, Bird], report: AgentReport, bench: Bench) -> AgentReport:
    """Run the canary. A failed turn is a finding about the agent, not an error of the trial."""
    began = bench.clock()
    try:
        verdict = await sing(*birds)
    except (PoolError, BridgeError) as error:
        return worse(report, Finding(Severity.FAULT, str(error), "mend what the message names"))
    turns = sum(len(bird.said) for bird in birds)
    spent = (bench.clock() - began) / max(1, turns) * MILLISECONDS
    return replace(
        report, turn_ms=round(spent, 1), canary=verdict.canary, findings=(*report.findings, *verdict.findings)
    )


def worse(report: AgentReport, finding: Finding) -> AgentReport:
    """The report with a further finding."""
    return replace(report, findings=(*report.findings, finding))
