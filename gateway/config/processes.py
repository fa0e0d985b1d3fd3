"""Builds the pool's settings from the gateway's."""

import resource
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.keys import key_ring
from ostler.gateway.config.settings import ProviderSection, Settings
from ostler.gateway.model.model_names import Models
from ostler.pool.core.settings import Limits
from ostler.pool.core.values import SettingsError
from ostler.pool.keys import TransportKey
from ostler.pool.launch.configuration import PoolSettings, Share, WarmKey
from ostler.pool.launch.settings import BadSetting, Deadlines, ProviderSettings
from ostler.pool.provider import Approval, ToolChannel

BEHIND = 5.0
"""Seconds by which the pool's own timeouts exceed the deadlines of the work they cover."""
LIMIT = "RLIMIT_"
AUTO = "auto"


def pool_settings(settings: Settings, models: Models, default_cwd: Path, compiled: Path | None) -> PoolSettings:
    """Return the pool's settings. Raises `ConfigError` here, so that a mistake stops the start and not the first turn.

    `compiled` is the folder where agents keep their compiled code, or None.
    """
    pool, sections = settings.pool, sections_by_name(settings, models)
    try:
        providers = {
            name: provider_settings(settings, sections.get(name) or ProviderSection(), name, compiled)
            for name in sorted(set(models.providers.values()))
        }
        deadlines = [each.deadlines for each in providers.values()]
        return PoolSettings(
            enabled=pool.enabled,
            limits=Limits(
                max_processes=pool.max_processes,
                max_processes_per_key=pool.max_processes_per_key,
                max_queue=pool.max_queue,
                idle_after=pool.idle_after,
                max_age=pool.max_age,
                memory_budget=pool.memory_budget,
                # Later than the deadlines of the work itself, whose errors contain what the agent said last.
                start_timeout=BEHIND + max(each.start for each in deadlines),
                open_timeout=BEHIND + max(each.seat for each in deadlines),
            ),
            providers=providers,
            warm=warm_keys(settings, models, default_cwd),
            spares={name: section.spares for name, section in sections.items() if section.spares},
            # The directory of requests that name none is always allowed: without it they would all be refused.
            roots=(*pool.roots, str(default_cwd)) if pool.roots else (),
            claim_deadline=pool.claim_deadline,
            share=share_of(settings, key_ring(settings.auth).owners),
            fallback=pool.fallback,
        )
    except (SettingsError, BadSetting) as error:
        raise ConfigError("pool", str(error)) from error


def share_of(settings: Settings, owners: int) -> Share:
    """Return which callers may share a process; `owners` is the number of different key owners."""
    word = settings.pool.share
    return Share(word) if word != AUTO else Share.OWNER if owners > 1 else Share.ALL


def sections_by_name(settings: Settings, models: Models) -> dict[str, ProviderSection]:
    """Return the `[providers]` sections by canonical provider name. Raises `ConfigError` if two sections name one
    provider."""
    found: dict[str, ProviderSection] = {}
    for called, section in settings.providers.items():
        name = models.providers.get(called)
        if name is None:
            known = ", ".join(sorted(models.providers))
            raise ConfigError(f"providers.{called}", f"unknown provider; known: {known}")
        if name in found:
            raise ConfigError(f"providers.{called}", f"there is another section for {name}; keep one of them")
        found[name] = section
    return found


def provider_settings(settings: Settings, given: ProviderSection, name: str, compiled: Path | None) -> ProviderSettings:
    """Return the settings of one provider; what its section leaves out keeps the pool's default."""
    deadlines = Deadlines(prompt_inactivity=settings.gateway.turn_inactivity)
    if given.start_deadline is not None:
        deadlines = replace(deadlines, start=given.start_deadline)
    if given.open_deadline is not None:
        deadlines = replace(deadlines, session_open=given.open_deadline, session_load=given.open_deadline)
    known = ProviderSettings(
        command=None if given.command is None else tuple(given.command),
        args=tuple(given.args),
        env=given.env,
        pass_env=tuple(given.pass_env),
        prefix=tuple(given.prefix),
        rlimits=rlimits(given.rlimits, name),
        commands=given.commands,
        home=given.home,
        cache=None if compiled is None else str(compiled),
        deadlines=deadlines,
        open_requests=settings.pool.open_requests,
    )
    if given.tool_channel is not None:
        known = replace(known, tool_channel=channel(given.tool_channel, name))
    return known if given.approval is None else replace(known, approval=approval(given.approval, name))


def rlimits(given: Mapping[str, int], name: str) -> Mapping[int, tuple[int, int]]:
    """Map limit names to this system's numbers. The soft limit is also the hard one: a process that may raise its limit
    has none."""
    known = {
        word.removeprefix(LIMIT).lower(): number for word, number in vars(resource).items() if word.startswith(LIMIT)
    }
    for word in given:
        if word not in known:
            raise ConfigError(f"providers.{name}.rlimits.{word}", f"no limit of this system; known: {', '.join(known)}")
    return {known[word]: (amount, amount) for word, amount in given.items()}


def channel(word: str, name: str) -> ToolChannel:
    """Return the channel by which tools reach the agent. Raises `ConfigError` for an unknown word."""
    try:
        return ToolChannel(word)
    except ValueError as error:
        known = ", ".join(each.value for each in ToolChannel)
        raise ConfigError(f"providers.{name}.tool_channel", f"{word!r} is none of {known}") from error


def approval(word: str, name: str) -> Approval:
    """Return the approval mode of this name. Raises `ConfigError` for an unknown word."""
    try:
        return Approval(word)
    except ValueError as error:
        known = ", ".join(each.value for each in Approval)
        raise ConfigError(f"providers.{name}.approval", f"{word!r} is none of {known}") from error


def warm_keys(settings: Settings, models: Models, default_cwd: Path) -> tuple[WarmKey, ...]:
    """Return the keys of `[[pool.warm]]`, and that of the default model if `pool.prewarm` is set."""
    wanted = [(warm.model, warm.cwd, warm.seats) for warm in settings.pool.warm]
    if settings.pool.prewarm:
        wanted.append((settings.gateway.default_model, None, 1))
    keys: list[WarmKey] = []
    for model, cwd, seats in wanted:
        found = models.resolve(model)
        if found is None:
            raise ConfigError("pool.warm", f"unknown model {model!r}; there is: {models.offered()}")
        keys.append(WarmKey(TransportKey(*found, cwd or str(default_cwd)), None, seats))
    return tuple(keys)
