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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ostler.pool.errors import BadDirectory


@dataclass(frozen=True, slots=True)
class TransportKey:
    """The identity of a shared process."""

    provider: str
    model: str
    cwd: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model} in {self.cwd}"


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
