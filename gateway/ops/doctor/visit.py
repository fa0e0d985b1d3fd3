"""Examines the machine, then the agents one after another, so that no measurement disturbs another."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ostler.gateway.config.approval import permits_of
from ostler.gateway.config.load import Loaded
from ostler.gateway.ops.doctor.machine import machine
from ostler.gateway.ops.doctor.report import AgentReport, Finding, Report, Severity
from ostler.gateway.ops.doctor.traps import deeds, packaged_version, traps
from ostler.gateway.ops.doctor.trial import Bench, try_agent, worse
from ostler.gateway.ops.settings_check import check, models_of
from ostler.pool.errors import AgentStartFailed
from ostler.pool.keys import TransportKey
from ostler.pool.launch.builder import DEFAULT_MODEL, launch
from ostler.pool.launch.configuration import PoolSettings
from ostler.pool.launch.settings import BadSetting, ProviderSettings
from ostler.pool.provider import Provider
from ostler.pool.providers import load as load_providers


@dataclass(frozen=True, slots=True)
class Visit:
    """What to examine, and how thoroughly."""

    loaded: Loaded
    environ: Mapping[str, str]
    named: Sequence[str] = ()
    """Names of providers; empty means all that are installed."""
    model: str | None = None
    start: bool = True
    canary: bool = True
    patience: float = 300.0


@dataclass(frozen=True, slots=True)
class DoctorDeps:
    """The dependencies of an examination: a clock, a source of unguessable words, and a callback for progress."""

    clock: Callable[[], float]
    word: Callable[[], str]
    tell: Callable[[str, str], None]


async def examine(visit: Visit, instruments: DoctorDeps) -> Report:
    """Examine the machine and the agents."""
    loaded = visit.loaded
    models, checked = check(loaded.settings, loaded.data_dir)
    pool = without_cache(checked)
    configured = dict(filter(None, (models.resolve(name) for name in models.listed())))
    agents = []
    for name, provider in load_providers().items():
        if visit.named and name not in visit.named:
            continue
        settings = pool.providers.get(name) or ProviderSettings()
        if provider.find is None and settings.command is None and name not in visit.named:
            continue  # a provider without a known program (any ACP agent), and no command is configured
        instruments.tell(name, "looking")
        blank = AgentReport(
            name,
            provider.title,
            wanted=name in visit.named or name in configured or name in loaded.settings.providers,
            installed=False,
            measured=provider.measured,
            model=visit.model or configured.get(name) or DEFAULT_MODEL,
        )
        agents.append(await examine_agent(visit, instruments, pool, provider, blank))
    return Report(tuple(machine(loaded.data_dir, pool)), tuple(agents))


def without_cache(pool: PoolSettings) -> PoolSettings:
    """Switch the compile cache off, so that an examination leaves nothing behind: where no gateway has run yet, an
    agent would create the cache, and with it the data folder, readable by every user. Start times are therefore the
    slowest possible."""
    return replace(pool, providers={name: replace(each, cache=None) for name, each in pool.providers.items()})


async def examine_agent(
    visit: Visit, instruments: DoctorDeps, pool: PoolSettings, provider: Provider, blank: AgentReport
) -> AgentReport:
    """Check one agent, then try it if it is installed and has no fault."""
    with tempfile.TemporaryDirectory(prefix="ostler-doctor-") as place:
        looked = inspect(blank, provider, pool, Path(place), visit)
        if not (looked.installed and looked.healthy and visit.start):
            return looked
        bench = Bench(
            Path(place),
            pool,
            visit.environ,
            instruments.clock,
            instruments.word,
            lambda text: instruments.tell(provider.name, text),
            visit.patience,
            visit.canary,
        )
        return aged(await try_agent(looked, bench))


def inspect(blank: AgentReport, provider: Provider, pool: PoolSettings, folder: Path, visit: Visit) -> AgentReport:
    """Check an agent without starting it."""
    settings = pool.providers.get(provider.name) or ProviderSettings()
    try:
        made = launch(provider, settings, TransportKey(provider.name, blank.model, str(folder)), visit.environ)
    except AgentStartFailed as error:
        level = Severity.FAULT if blank.wanted else Severity.NOTE
        return worse(blank, Finding(level, error.why, provider.install))
    except BadSetting as error:
        return worse(blank, Finding(Severity.FAULT, str(error), f"mend [providers.{provider.name}]"))
    program = " ".join(made.command.argv[:2]) if len(made.command.argv) > 1 else made.command.argv[0]
    permits = permits_of(visit.loaded.settings, models_of(visit.loaded.settings), pool, load_providers())
    rule = permits.rule(made.key)
    found = (*traps(made, rule, kept=permits.kept(made.key, rule)), deeds(provider, rule))
    return replace(blank, installed=True, program=program, version=packaged_version(made), findings=found)


def aged(report: AgentReport) -> AgentReport:
    """Add a note if the version differs from the measured one: another version may behave differently."""
    if not (report.measured and report.version) or report.version.startswith(report.measured):
        return report
    text = f"version {report.version} was never measured, {report.measured} was: what is declared of it may be wrong"
    return worse(report, Finding(Severity.NOTE, text, "trust the canary above; report what differs"))
