"""The only builder of launches. The warm path and the claim path both use it, so they cannot differ.

Every input that shapes a process belongs to one of three classes:
- in the key: provider, model, cwd. A process starts in its key's directory, as if a user typed the command there. A
  spare, which has no key yet, starts in its HOME, and so does an agent that declares `starts_in_home`.
- in the fingerprint: everything else that reaches the process, and the model. A changed fingerprint starts a new
  generation.
- per call: deadlines, tools, permission policy, prompt. They never reach the spawn.

Secret values are hashed before they enter the fingerprint, so that it may be logged.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from ostler.pool.errors import AgentMissing, AgentStartFailed, Phase, UnknownProvider
from ostler.pool.keys import TransportKey
from ostler.pool.launch.finder import PathFinder
from ostler.pool.launch.logins import logins, missing_login
from ostler.pool.launch.settings import BadSetting, ProviderSettings
from ostler.pool.prompt import PlainText
from ostler.pool.provider import Approval, CodecName, Provider, ProviderNeeds, ToolChannel
from ostler.process.command import Command
from ostler.process.environment import build_environment

DEFAULT_MODEL = "default"
"""The model name that leaves the choice to the agent."""
CREDENTIAL_FILE_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything needed to start one process of a key, as a value."""

    key: TransportKey
    provider: Provider
    settings: ProviderSettings
    command: Command
    fingerprint: str
    home: str
    unkeyed: str = ""
    """Why the agent cannot log in, as far as its declaration tells; "" if it can."""

    @property
    def channel(self) -> ToolChannel:
        """The channel by which tools reach the sessions of this process."""
        return self.settings.tool_channel or self.provider.tool_channel

    @property
    def plain(self) -> PlainText:
        """How texts are escaped so that the agent does not obey them as its own commands."""
        return PlainText() if self.settings.commands else PlainText(self.provider.commands, self.provider.mentions)


def spare_of(known: Launch) -> Launch:
    """The same process for any key that may adopt it. Reads nothing; the directory is in no fingerprint."""
    # Which key will adopt it is not known yet, and its label must not name another key's directory.
    label = f"{known.key.provider}/{known.key.model}, spare"
    return replace(known, command=replace(known.command, cwd=Path(known.home), label=label, exact_cwd=False))


def model_of(key: TransportKey) -> str | None:
    """The model to ask for; None leaves it to the agent."""
    return None if key.model in ("", DEFAULT_MODEL) else key.model


def launch(
    provider: Provider,
    settings: ProviderSettings,
    key: TransportKey,
    environ: Mapping[str, str],
) -> Launch:
    """Build the command and its fingerprint. Raises `AgentStartFailed` (not installed), `BadSetting`."""
    _check(provider, settings, key)
    home = settings.home or environ.get("HOME", "/")
    base = build_environment(
        environ, passed=(*provider.pass_env, *provider.credentials, *settings.pass_env), extra={"HOME": home}
    )
    program = _program(provider, settings, settings.env.get("PATH", base["PATH"]))
    recipe = provider.arguments(ProviderNeeds(model_of(key), settings.approval))
    cache = {} if settings.cache is None else {"NODE_COMPILE_CACHE": settings.cache}
    env = {**base, **cache, **provider.fixed_env, **recipe.env, **settings.env}
    command = Command(
        argv=(*program, *recipe.args, *settings.args),
        cwd=Path(home if provider.starts_in_home else key.cwd),
        env=env,
        label=str(key),
        exact_cwd=not provider.starts_in_home,
        prefix=settings.prefix,
        rlimits=settings.rlimits,
        secrets=tuple(env[name] for name in provider.credentials if env.get(name)),
    )
    channel = settings.tool_channel or provider.tool_channel
    mark = fingerprint(
        command,
        model=model_of(key),
        approval=settings.approval,
        commands=settings.commands,
        codec=provider.codec,
        channel=channel,
        credentials=_credentials(provider, env, home),
    )
    return Launch(key, provider, settings, command, mark, home, missing_login(provider, env, home))


def fingerprint(
    command: Command,
    *,
    model: str | None,
    approval: Approval,
    commands: bool = False,
    codec: CodecName,
    channel: ToolChannel,
    credentials: Mapping[str, str],
) -> str:
    """A digest of everything that shapes a process, except its directory.

    The model is part of the key too. It is included here because an agent may get the model with each session: only the
    fingerprint then tells processes of different models apart, and a spare may be adopted only by a key of its model.
    """
    document = {
        "model": model,
        "argv": command.argv,
        "prefix": command.prefix,
        "env": {name: _digest(value.encode()) for name, value in command.env.items()},
        "rlimits": {str(kind): limits for kind, limits in command.rlimits.items()},
        "approval": approval.value,
        "commands": commands,
        "codec": codec.value,
        "channel": channel.value,
        "credentials": dict(credentials),
    }
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _check(provider: Provider, settings: ProviderSettings, key: TransportKey) -> None:
    if key.provider != provider.name:
        raise UnknownProvider(key.provider, [provider.name])
    if settings.approval is not Approval.AGENT and settings.approval not in provider.approvals:
        offered = ", ".join(sorted(provider.approvals))
        raise BadSetting("approval", f"{provider.name} cannot be put into {settings.approval.value!r}, only: {offered}")
    if settings.tool_channel is not None and settings.tool_channel not in provider.tool_channels:
        proven = ", ".join(sorted(provider.tool_channels))
        raise BadSetting(
            "tool_channel",
            f"{provider.name} is not given its tools over {settings.tool_channel.value!r}, only: {proven}",
        )
    if settings.deadlines.start < provider.expected_start:
        raise BadSetting(
            "deadlines.start", f"{provider.name} needs about {provider.expected_start:.1f} s to start on a calm machine"
        )


def _program(provider: Provider, settings: ProviderSettings, path: str) -> tuple[str, ...]:
    if provider.find is None and settings.command is None:
        raise BadSetting(f"providers.{provider.name}.command", "this agent has no command of its own: configure one")
    finder = PathFinder(path)
    try:
        if settings.command is not None:
            name, *arguments = settings.command
            return (finder.program(name, install=provider.install), *arguments)
        return () if provider.find is None else provider.find(finder)
    except AgentMissing as missing:
        raise AgentStartFailed(
            provider=provider.name, phase=Phase.SPAWN, command=(missing.program,), why=str(missing), waited=0.0
        ) from missing


def _credentials(provider: Provider, env: Mapping[str, str], home: str) -> Mapping[str, str]:
    """Digests of the login files, so that a new login starts new processes and an old one cannot write itself back."""
    found: dict[str, str] = {}
    for login in logins(provider, env, home):
        try:
            with login.path.open("rb") as file:
                found[login.name] = _digest(file.read(CREDENTIAL_FILE_LIMIT))
        except OSError:
            found[login.name] = "absent"
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
