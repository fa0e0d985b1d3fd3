"""What a process is shared by, and what a directory must be before it becomes part of a key.

Rules:
- `TransportKey` is a value: equal parts, equal key, one process. Its cwd is canonical (resolved, existing, allowed);
  only `canonical_cwd` makes one, because some agents take any cwd without a word and some ask only later.
- Allowed roots are judged after resolving and by whole path parts: `/srv/a` does not allow `/srv/ab`, and a symlink
  that leads out of a root is out.
- A provider may be called as people call it where a key is given to the pool; the pool's own keys have its name.
- Everything else that shapes a process (argv, environment, permission mode, tool channel) is not in the key but in the
  spawn fingerprint: a changed fingerprint is a new generation of the same key.
"""

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
    """Resolve a directory and check it; `BadDirectory` says which rule it breaks. No roots: any directory."""
    given = Path(cwd)
    if not given.is_absolute():
        raise BadDirectory(str(cwd), "it is not an absolute path")
    try:
        resolved = given.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise BadDirectory(str(cwd), "it does not exist or cannot be read") from error
    if not resolved.is_dir():
        raise BadDirectory(str(cwd), "it is not a directory")
    allowed = [Path(root).resolve() for root in roots]
    if allowed and not any(resolved.is_relative_to(root) for root in allowed):
        raise BadDirectory(str(cwd), "it lies outside the allowed roots")
    return str(resolved)
