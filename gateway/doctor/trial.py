"""One agent tried for real: started cold in a pool of its own, two sessions opened, the canary run, everything ended.

Rules: the agent gets the very command that the gateway would give it. It works in a fresh empty folder. Nothing that is
started here outlives the trial, and the trial has a limit of its own besides those of the pool.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ostler.bridge.errors import BridgeError
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.gateway.doctor.canary import TOOLS, Bird, sing
from ostler.gateway.doctor.report import AgentReport, Finding, Level
from ostler.pool.configuration import PoolSettings
from ostler.pool.embed import open_pool
from ostler.pool.errors import PoolError
from ostler.pool.keys import TransportKey
from ostler.pool.permission import allow
from ostler.pool.pool import TransportPool

MILLISECONDS = 1000.0


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a trial takes place."""

    folder: Path
    settings: PoolSettings
    environ: Mapping[str, str]
    clock: Callable[[], float]
    word: Callable[[], str]
    tell: Callable[[str], None]
    patience: float
    canary: bool


async def try_agent(report: AgentReport, bench: Bench) -> AgentReport:
    """The report, with what the trial found."""
    try:
        async with asyncio.timeout(bench.patience), stage(bench) as pool:
            return await measure(pool, report, bench)
    except TimeoutError:
        text = f"it was not done within {bench.patience:.0f} s"
        return worse(report, Finding(Level.FAULT, text, "try it by hand; --patience gives it longer"))
    except (PoolError, BridgeError) as error:
        return worse(report, Finding(Level.FAULT, str(error), "mend what the message names, then run this again"))


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


async def measure(pool: TransportPool, report: AgentReport, bench: Bench) -> AgentReport:
    """Start, open twice, ask."""
    work = bench.folder / "work"
    work.mkdir()
    key = TransportKey(report.provider, report.model, str(work))
    bench.tell("starting it cold")
    async with await pool.lease(key, tools=TOOLS, owner="one") as first:
        started = replace(
            report,
            start_ms=round(first.waited.spawn * MILLISECONDS, 1),
            session_ms=round(first.waited.session_new * MILLISECONDS, 1),
            version=(await pool.get(key)).info.version or report.version,
        )
        bench.tell(f"up after {started.start_ms:.0f} ms; opening a second session")
        began = bench.clock()
        async with await pool.lease(key, tools=TOOLS, owner="two") as second:
            opened = replace(started, second_session_ms=round((bench.clock() - began) * MILLISECONDS, 1))
            if not bench.canary:
                return opened
            bench.tell("asking both sessions for their own word and tool")
            birds = [Bird(lease, bench.word(), bench.word()) for lease in (first, second)]
            began = bench.clock()
            try:
                verdict = await sing(*birds)
            except (PoolError, BridgeError) as error:
                return worse(opened, Finding(Level.FAULT, str(error), "mend what the message names"))
            turns = sum(len(bird.said) for bird in birds)
            spent = (bench.clock() - began) / max(1, turns) * MILLISECONDS
            return replace(
                opened,
                turn_ms=round(spent, 1),
                canary=verdict.canary,
                findings=(*opened.findings, *verdict.findings),
            )


def worse(report: AgentReport, finding: Finding) -> AgentReport:
    """One finding more."""
    return replace(report, findings=(*report.findings, finding))
