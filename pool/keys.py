"""What a process is shared by, and the checks a directory must pass before it becomes part of a key.

Rules:
- `TransportKey` is a value: equal parts, equal key, one process. Its cwd is canonical (resolved, existing, allowed).
  Only `canonical_cwd` makes one, because some agents accept any cwd silently and some check it only later.
- Allowed roots are judged after resolving and by whole path parts: `/srv/a` does not allow `/srv/ab`, and a symlink
  that leads out of a root is refused. A path outside the roots is refused with the same words whether it exists or not.
- A caller may give a provider's short name in a key; the pool's own keys have its full name.
- Everything else that shapes a process (argv, environment, permission mode, tool channel) is not in the key but in the
  spawn fingerprint: a changed fingerprint is a new generation of the same key.
"""

import os
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ostler.pool.errors import BadDirectory


@dataclass(frozen=True, slots=True)
class TransportKey:
    """The identity of a shared process."""

    provider: str
    model: str
    cwd: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model} in {self.cwd}"


@dataclass(frozen=True, slots=True)
class PoolKey:
    """The key that the core sees: a transport key that is shared by all sessions, shared by the sessions of one owner,
    or private, for processes that serve one session each.
    """

    key: TransportKey
    private: bool = False
    owner: str | None = None
    """The only owner whose sessions may share its processes; None: every owner, or no owner yet (see
    `PoolSettings.share`).
    """

    def __str__(self) -> str:
        whose = "" if self.owner is None else f" of {self.owner or 'the unnamed owner'}"
        return f"{self.key}, own process" if self.private else f"{self.key}{whose}"


def pool_key(key: Hashable) -> PoolKey:
    """The core returns only keys that it was given, and it is given no others."""
    return cast("PoolKey", key)


def canonical_cwd(cwd: str | Path, roots: Iterable[str | Path] = ()) -> str:
    """Resolve and check a directory. Raises `BadDirectory`, which says which rule it breaks. No roots: any
    directory.
    """
    given = Path(cwd)
    if not given.is_absolute():
        raise BadDirectory(str(cwd), "it is not an absolute path")
    cause: Exception | None = None
    try:
        resolved = given.resolve(strict=True)
        why = "" if resolved.is_dir() else "it is not a directory"
    except (OSError, RuntimeError, ValueError) as error:
        resolved, why, cause = led_to(given), "it does not exist or cannot be read", error
    allowed = [led_to(Path(root)) for root in roots]
    if allowed and not any(resolved.is_relative_to(root) for root in allowed):
        why, cause = "it lies outside the allowed roots", None
    if why:
        raise BadDirectory(str(cwd), why, str(resolved)) from cause
    return str(resolved)


def led_to(path: Path) -> Path:
    """Where a path leads that cannot be resolved to its end: links are followed as far as they exist."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return Path(os.path.normpath(path))
