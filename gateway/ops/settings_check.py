"""Checks settings that are valid one by one but not together: finds what a start would find, without starting."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from ostler.bridge.upstreams.settings import UpstreamMisconfigured, UpstreamSettings
from ostler.gateway.chat.resets.policies import policies_of
from ostler.gateway.config.approval import check_levels, made_to_ask, notes, permits_of
from ostler.gateway.config.data_folder import COMPILED, spelled_out
from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.keys import check_exposure, key_ring
from ostler.gateway.config.processes import pool_settings
from ostler.gateway.config.settings import Settings
from ostler.gateway.memory import check as check_memory
from ostler.gateway.model.model_names import Models
from ostler.gateway.ops.gauges.traces import check as check_traces
from ostler.gateway.ops.log import checked as check_log
from ostler.pool.errors import AgentStartFailed
from ostler.pool.keys import TransportKey
from ostler.pool.launch.configuration import PoolSettings
from ostler.pool.launch.edition import PROCESS_BYTES, SettingsEdition
from ostler.pool.launch.settings import BadSetting
from ostler.pool.provider import callings
from ostler.pool.providers import load

NOTHING: Mapping[str, str] = MappingProxyType({})


def models_of(settings: Settings) -> Models:
    """Build the model names. Raises `ConfigError` for an alias or default that resolves to no provider."""
    models = Models(
        settings.models,
        callings(load()),
        settings.gateway.default_model,
        tuple(warm.model for warm in settings.pool.warm),
    )
    # Check aliases first: if the default is a broken alias, the error belongs to the alias.
    for key, name in {
        **{f"models.{k}": v for k, v in models.aliases.items()},
        "gateway.default_model": models.default,
    }.items():
        if models.resolve(name) is None:
            known = ", ".join(sorted(models.providers))
            raise ConfigError(key, f"{name!r} is no model: use provider/model with one of the providers {known}")
    return models


def require_commands(models: Models, pool: PoolSettings) -> None:
    """Check that every listed name has a command: a generic ACP agent needs one from the settings."""
    providers = load()
    leads = {name: found[0] for name in models.listed() if (found := models.resolve(name)) is not None}
    for name, provider in leads.items():
        if providers[provider].find is None and pool.providers[provider].command is None:
            text = f"this agent has no command of its own, and {name!r} leads to it: configure one"
            raise ConfigError(f"providers.{provider}.command", text)


def work_folder(settings: Settings, data_dir: Path) -> Path:
    """The directory of agents for requests that name none."""
    named = settings.gateway.default_cwd
    return data_dir / "work" if named is None else spelled_out(named)


def require_folder(settings: Settings) -> None:
    """Refuse a configured directory that does not exist: a newly created one would be empty, so the name is likely
    wrong."""
    named = settings.gateway.default_cwd
    if named is None:
        return
    try:
        found, why = spelled_out(named).is_dir(), ""
    except OSError as error:  # e.g. a name that is too long, or a folder above it that this user may not enter
        found, why = False, f" that can be looked at ({error.strerror})"
    if not found:
        raise ConfigError("gateway.default_cwd", f"there is no directory {named}{why}; make it, or name another one")


def require_room(settings: Settings) -> None:
    """Refuse a budget below the estimate for one process that was not measured yet: it would refuse every request."""
    budget = settings.pool.memory_budget
    if budget is not None and budget < PROCESS_BYTES:
        text = f"{budget} bytes are too few for one process, which counts as {PROCESS_BYTES} until it is measured"
        raise ConfigError("pool.memory_budget", f"{text}; raise it")


def upstream_settings(settings: Settings) -> list[UpstreamSettings]:
    """The configured upstream tool servers."""
    try:
        return [UpstreamSettings.of(name, table) for name, table in settings.tools.mcp.items()]
    except UpstreamMisconfigured as error:
        raise ConfigError("configuration", str(error)) from error


def check(
    settings: Settings, data_dir: Path, memories: Iterable[str] = (), environ: Mapping[str, str] = NOTHING
) -> tuple[Models, PoolSettings]:
    """Raise `ConfigError` for an invalid configuration; else return what a gateway is built from.

    `memories` are names that an embedding program provides. `environ` may hold the time zone of the machine.
    """
    models = models_of(settings)
    check_log(settings)
    if settings.memory.enabled:
        check_memory(settings.memory.providers, given=memories)
    policies_of(settings.resets, environ)
    check_traces(settings.metrics.otlp_endpoint)
    key_ring(settings.auth)
    check_exposure(settings.gateway.host, settings.gateway.uds, settings.auth)
    upstream_settings(settings)
    require_folder(settings)
    require_room(settings)
    compiled = data_dir / COMPILED if settings.pool.compile_cache else None
    wanted = pool_settings(settings, models, work_folder(settings, data_dir), compiled)
    require_commands(models, wanted)
    asking = made_to_ask(wanted, settings, models, load())
    check_levels(settings, models, permits_of(settings, models, asking, load()))
    return models, asking


def levels_in_force(
    settings: Settings, data_dir: Path, memories: Iterable[str] = (), environ: Mapping[str, str] = NOTHING
) -> list[str]:
    """A line about each permission level in force, for the operator who starts the gateway or checks its configuration.
    Raises what `check` raises."""
    models, wanted = check(settings, data_dir, memories, environ)
    return notes(settings, models, permits_of(settings, models, wanted, load()))


def default_trouble(models: Models, pool: PoolSettings, cwd: Path, environ: Mapping[str, str]) -> str:
    """Why the agent of the default model cannot be started on this machine; "" if nothing prevents it. The gateway
    starts nevertheless and is not ready: the agent may be installed later."""
    found = models.resolve(models.default)
    if found is None:
        return ""
    try:
        SettingsEdition(pool, load(), environ).build(TransportKey(*found, str(cwd)))
    except AgentStartFailed as error:
        return error.why
    except BadSetting as error:
        return str(error)
    return ""
