"""A command to run, as a value. Equal commands start equal processes; no repr shows a secret."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ostler.process.errors import CommandError
from ostler.process.reaper.proc import MARKER


@dataclass(frozen=True, slots=True)
class Command:
    """One process to start: `label` names it in errors, logs and the ledger (usually the transport key)."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    label: str = "agent"
    exact_cwd: bool = False
    """Whether `cwd` is canonical. Then the start fails if that name leads elsewhere by that time."""
    prefix: tuple[str, ...] = ()
    """Put before argv: a sandbox or a scope, e.g. `("bwrap", ...)` or `("systemd-run", "--scope")`."""
    rlimits: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """`resource.RLIMIT_*` to (soft, hard), set from outside once the process runs."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values to hide in its stderr; values of variables with secret names are added automatically."""

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise CommandError(f"{self.label}: the command is empty")
        texts = (*self.full_argv, str(self.cwd), *self.env.keys(), *self.env.values())
        if any("\0" in text for text in texts):
            raise CommandError(f"{self.label}: NUL byte in argv, cwd or environment")
        try:
            for text in texts:
                os.fsencode(text)
        except UnicodeEncodeError as error:
            raise CommandError(f"{self.label}: text that cannot be encoded in argv, cwd or environment") from error
        if any(not name or "=" in name for name in self.env):
            raise CommandError(f"{self.label}: environment names must be non-empty and without '='")

    @property
    def full_argv(self) -> tuple[str, ...]:
        return (*self.prefix, *self.argv)

    def marked_env(self, mark: str) -> dict[str, str]:
        return {**self.env, MARKER: mark}
