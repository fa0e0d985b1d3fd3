"""Who asks. Keys are kept as digests and compared in constant time; what a key may do is part of it. Values only."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.settings import AuthSettings
from ostler.gateway.model.permits import PermissionRule

SHORTEST = 16
DEFAULT = "default"
"""Whom `auth.api_key` belongs to."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Caller:
    """The owner of a key, or the one person on a loopback gateway without keys."""

    name: str = ""
    models: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    """Canonical: nobody looks at the disk again when a request comes."""
    concurrency: int = 64
    per_minute: int = 6000
    admin: bool = False
    """Whether it may see and take up every session on chat faces, and see and steer the pool."""
    rule: PermissionRule | None = None
    """What an agent hears that asks for permission; None: what is said for the model."""

    def may_use(self, model: str) -> bool:
        """Whether the key allows this `provider/model`."""
        return not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)

    def may_enter(self, cwd: str) -> bool:
        """Whether the key allows this directory, which is canonical."""
        return not self.roots or any(Path(cwd).is_relative_to(root) for root in self.roots)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys of a gateway; an empty one is open."""

    entries: tuple[tuple[bytes, Caller], ...] = ()
    anyone: Caller = field(default_factory=Caller)

    @property
    def open(self) -> bool:
        """Whether no key is asked for."""
        return not self.entries

    @property
    def owners(self) -> int:
        """How many different people or programs have a key."""
        return len({caller.name for _, caller in self.entries})

    def caller(self, key: str) -> Caller | None:
        """Whose key this is."""
        return self.holder(digest(key))

    def holder(self, given: bytes) -> Caller | None:
        """By a key's digest. Looks at every entry, so that the time says nothing about which one it was."""
        found = None
        for known, caller in self.entries:
            if hmac.compare_digest(known, given):
                found = caller
        return found


class KeySource(Protocol):
    """The keys in force."""

    @property
    def open(self) -> bool: ...
    @property
    def anyone(self) -> Caller: ...
    def caller(self, key: str) -> Caller | None: ...
    def holder(self, given: bytes) -> Caller | None: ...


def digest(key: str) -> bytes:
    """What is kept of a key. A key is long and random, so a plain digest cannot be reversed."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def key_ring(settings: AuthSettings) -> KeyRing:
    """The keys of a configuration."""
    entries: list[tuple[bytes, Caller]] = []
    if settings.api_key:
        entries.append((digest(settings.api_key), Caller(DEFAULT, (), (), settings.concurrency, settings.per_minute)))
    for key in settings.keys:
        check_name(key.name, settings)
        caller = Caller(
            key.name,
            tuple(key.models),
            tuple(canonical(root, key.name) for root in key.roots),
            key.concurrency or settings.concurrency,
            key.per_minute or settings.per_minute,
            key.admin,
            None if key.permissions is None else PermissionRule(key.permissions),
        )
        entries.append((bytes.fromhex(key.sha256), caller))
    # Without keys whoever gets in may run agents already; to steer them is no more than that.
    anyone = Caller(concurrency=settings.concurrency, per_minute=settings.per_minute, admin=not entries)
    return KeyRing(tuple(entries), anyone)


def check_name(name: str, settings: AuthSettings) -> None:
    """Sessions belong to the name of a key: two keys of one name are one owner, which is for their operator to say."""
    if not name.strip() or not name.isprintable():
        text = "needs a name that can be read: without one its sessions are those of a gateway without keys"
        raise ConfigError(f"auth.keys {name!r}", text)
    if name == DEFAULT and settings.api_key:
        text = "is what the sessions of auth.api_key (OSTLER_API_KEY) are kept under: call it something else"
        raise ConfigError(f"auth.keys {name!r}", text)


def canonical(root: str, name: str) -> str:
    """Where a root really is; it need not be there yet."""
    try:
        return str(Path(root).resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"auth.keys {name!r}", f"the root {root!r} leads nowhere: {error}") from error


def check_exposure(host: str, uds: str | None, settings: AuthSettings) -> None:
    """Refuse to serve agents, which can run programs, to a network without a key."""
    if settings.api_key and len(settings.api_key) < SHORTEST and not loopback(host, uds):
        raise ConfigError("auth.api_key", f"a key for {host} needs at least {SHORTEST} characters")
    if not settings.api_key and not settings.keys and not loopback(host, uds):
        raise ConfigError(
            "gateway.host",
            f"{host} is not loopback, and whoever reaches it could run agents on this machine: set OSTLER_API_KEY to a"
            f" secret of at least {SHORTEST} characters, or listen on 127.0.0.1",
        )


def loopback(host: str, uds: str | None) -> bool:
    """Whether only this machine can connect."""
    return uds is not None or host in LOOPBACK or host.startswith("127.")


def host_names(extra: Sequence[str]) -> frozenset[str]:
    """The names a gateway without keys answers to: a page on another name that resolves to us is refused."""
    return LOOPBACK | {name.lower() for name in extra}
