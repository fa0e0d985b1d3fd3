"""The environment of a child: what it needs to run, what its provider declares, and nothing else.

Several agents pass their whole environment on to tool servers, so every variable allowed here reaches third-party
programs.
"""

from collections.abc import Iterable, Mapping

ALLOWED = frozenset({"HOME", "LANG", "PATH", "TERM", "TMPDIR", "USER"})
ALLOWED_PREFIXES = ("LC_", "XDG_")
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
DEFAULTS: Mapping[str, str] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"}


def build_environment(
    parent: Mapping[str, str], *, passed: Iterable[str] = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Allow-listed variables of `parent`, plus those `passed` on by name, plus `extra`, which wins."""
    wanted = ALLOWED.union(passed)
    kept = {k: v for k, v in parent.items() if k in wanted or k.startswith(ALLOWED_PREFIXES)}
    return {**DEFAULTS, **kept, **(extra or {})}


def secret_values(env: Mapping[str, str]) -> tuple[str, ...]:
    """Values whose names mark them as secrets. Values under 8 characters are left out: hiding them would damage
    ordinary text.
    """
    return tuple(v for k, v in env.items() if len(v) >= 8 and any(word in k.upper() for word in SECRET_WORDS))
