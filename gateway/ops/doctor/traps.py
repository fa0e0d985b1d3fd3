"""The known traps of agent CLIs, looked for without starting anything.

Rules: nothing here knows an agent by name. What a provider needs is in its declaration (`fixed_env`, `credentials`,
`approvals`); a trap is where the settings or the machine take it away.
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
"""How many folders above a program its package may be described."""


def traps(launch: Launch, rule: PermissionRule, *, kept: bool) -> Iterator[Finding]:
    """Everything that can be known before a start."""
    yield from overridden(launch)
    yield from launcher(launch)
    yield from keys(launch)
    yield from home(launch)
    yield from approval(launch, rule, kept=kept)
    yield from declared(launch)


def overridden(launch: Launch) -> Iterator[Finding]:
    """Relaunch, folder trust, update checks: what the provider sets for a reason, and the settings set otherwise."""
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
    """A Node launcher in front of the agent: one process more, and signals end at it."""
    program = Path(launch.command.argv[0]).resolve()
    if program.suffix in SCRIPTS:
        yield Finding(
            Severity.WARNING,
            f"{launch.command.argv[0]} is a launcher, and the program behind it was not found",
            f"install it again ({launch.provider.install}), or name the program itself in "
            f"providers.{launch.provider.name}.command",
        )


def keys(launch: Launch) -> Iterator[Finding]:
    """A handshake succeeds without a key; the first session does not."""
    if launch.unkeyed:
        yield Finding(Severity.FAULT, launch.unkeyed, launch.provider.advice())


def home(launch: Launch) -> Iterator[Finding]:
    """Agents keep their sessions in HOME."""
    place = Path(launch.home)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        yield Finding(
            Severity.FAULT,
            f"its HOME {launch.home} is no directory that can be written to",
            f"set providers.{launch.provider.name}.home to one that can",
        )


def approval(launch: Launch, rule: PermissionRule, *, kept: bool) -> Iterator[Finding]:
    """What it may do, whether it can be held to that, and whether anybody answers yes."""
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
    """What becomes of its deeds at the level in force."""
    found = provider.levels.get(rule)
    if found is None:
        return Finding(Severity.NOTE, f"permission level {rule.value}")
    told = ", ".join(f"{name.replace('_', ' ')} {deed}" for name, deed in asdict(found).items())
    return Finding(Severity.NOTE, f"permission level {rule.value}: {told}")


def declared(launch: Launch) -> Iterator[Finding]:
    """What is true of the agent itself, and good to know."""
    provider = launch.provider
    if not provider.shared:
        yield Finding(Severity.NOTE, "its sessions cannot share a process: each costs a whole one")
    if provider.tokens_in_argv:
        yield Finding(
            Severity.NOTE, "it shows its sessions' tokens in the arguments of a child, where users of this machine read"
        )


def packaged_version(launch: Launch) -> str:
    """What the package beside the program says of itself; "" where there is none. Nothing is run."""
    for word in launch.command.argv[:2]:
        for folder in [*Path(word).resolve().parents][:UP] if word.startswith("/") else ():
            described = folder / "package.json"
            if described.is_file():
                return version_in(described)
    return ""


def version_in(path: Path) -> str:
    """The version of a package.json; "" for one that cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, str) else ""
