"""Checks for known pitfalls of agent CLIs that need no start of the agent.

Rules: no agent is known by name here. What a provider needs is in its declaration (`fixed_env`, `credentials`,
`approvals`); the checks find where settings or the machine contradict it.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ostler.gateway.model.permits import PermissionRule, not_kept
from ostler.gateway.ops.doctor.report import Finding, Severity
from ostler.pool.launch.builder import Launch
from ostler.pool.launch.finder import SCRIPTS
from ostler.pool.provider import Approval, Provider

UP = 6
"""How many parent folders of a program are searched for its package.json."""


def traps(launch: Launch, rule: PermissionRule, *, kept: bool) -> Iterator[Finding]:
    """Yield all findings that are possible without starting the agent."""
    yield from overridden(launch)
    yield from launcher(launch)
    yield from keys(launch)
    yield from home(launch)
    yield from approval(launch, rule, kept=kept)
    yield from declared(launch)


def overridden(launch: Launch) -> Iterator[Finding]:
    """Check that the settings do not override the environment that the provider fixes: relaunch, folder trust, update
    checks."""
    for name, wanted in launch.provider.fixed_env.items():
        found = launch.command.env.get(name)
        if found != wanted:
            yield Finding(
                Severity.FAULT,
                f"{name} is set to {found!r}; this agent is only fit for a pool with {wanted!r} (a relaunched agent is "
                "two processes and ignores signals, an untrusted folder loses its tools without a word)",
                f"remove {name} from [providers.{launch.provider.name}.env]",
            )


def launcher(launch: Launch) -> Iterator[Finding]:
    """Warn about a Node launcher in front of the agent: it is one more process, and signals end at it."""
    program = Path(launch.command.argv[0]).resolve()
    if program.suffix in SCRIPTS:
        yield Finding(
            Severity.WARNING,
            f"{launch.command.argv[0]} is a launcher, and the program behind it was not found",
            f"install it again ({launch.provider.install}), or name the program itself in "
            f"providers.{launch.provider.name}.command",
        )


def keys(launch: Launch) -> Iterator[Finding]:
    """Check for credentials: without them the handshake succeeds, and the first session fails."""
    if launch.unkeyed:
        yield Finding(Severity.FAULT, launch.unkeyed, launch.provider.advice())


def home(launch: Launch) -> Iterator[Finding]:
    """Check that HOME is a writable directory: agents keep their sessions there."""
    place = Path(launch.home)
    if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
        yield Finding(
            Severity.FAULT,
            f"its HOME {launch.home} is no directory that can be written to",
            f"set providers.{launch.provider.name}.home to one that can",
        )


def approval(launch: Launch, rule: PermissionRule, *, kept: bool) -> Iterator[Finding]:
    """Check the permission rule: whether the agent can be held to it, and whether its questions get an answer."""
    mode, name = launch.settings.approval, launch.provider.name
    if not kept:
        yield Finding(Severity.WARNING, not_kept(name, rule), f'set pool.model_permissions = {{"{name}/*" = "auto"}}')
    if mode is Approval.ASK and rule is PermissionRule.DENY:
        yield Finding(
            Severity.WARNING,
            "it asks before it acts, and every question is answered with no",
            'set pool.permissions to "workspace", "ask" or "auto"',
        )
    if mode is Approval.AGENT:
        yield Finding(
            Severity.WARNING,
            "its own configuration decides what it asks for: it may refuse its tools, or wait for a person",
            f'set providers.{name}.approval to "ask" or "auto"',
        )


def deeds(provider: Provider, rule: PermissionRule) -> Finding:
    """What the agent may do at the permission level in force."""
    found = provider.levels.get(rule)
    if found is None:
        return Finding(Severity.NOTE, f"permission level {rule.value}")
    told = ", ".join(f"{name.replace('_', ' ')} {deed}" for name, deed in asdict(found).items())
    return Finding(Severity.NOTE, f"permission level {rule.value}: {told}")


def declared(launch: Launch) -> Iterator[Finding]:
    """Notes about properties of the agent itself."""
    provider = launch.provider
    if not provider.shared:
        yield Finding(Severity.NOTE, "its sessions cannot share a process: each costs a whole one")
    if provider.tokens_in_argv:
        yield Finding(
            Severity.NOTE, "it shows its sessions' tokens in the arguments of a child, where users of this machine read"
        )


def packaged_version(launch: Launch) -> str:
    """The version in the package.json near the program; "" if there is none. Runs nothing."""
    for word in launch.command.argv[:2]:
        for folder in [*Path(word).resolve().parents][:UP] if word.startswith("/") else ():
            described = folder / "package.json"
            if described.is_file():
                return version_in(described)
    return ""


def version_in(path: Path) -> str:
    """The version in a package.json; "" if it cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, str) else ""
