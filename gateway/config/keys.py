"""API keys and their callers. A key is kept as a digest and compared in constant time; its `Caller` says what it may
do. Values only."""

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
"""The owner name of `auth.api_key`."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Caller:
    """The owner of a key, or the one person on a loopback gateway without keys."""

    name: str = ""
    models: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    """Canonical paths, so that a request needs no disk access to check them."""
    concurrency: int = 64
    per_minute: int = 6000
    admin: bool = False
    """Whether the caller may see and take up every session on chat surfaces, and see and control the pool."""
    rule: PermissionRule | None = None
    """The permission level of this key; None: the level of the model applies."""

    def may_use(self, model: str) -> bool:
        """Whether the key allows this `provider/model`."""
        return not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)

    def may_enter(self, cwd: str) -> bool:
        """Whether the key allows this directory, which must be canonical."""
        return not self.roots or any(Path(cwd).is_relative_to(root) for root in self.roots)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys of a gateway. With no keys the gateway is open: every caller is `anyone`."""

    entries: tuple[tuple[bytes, Caller], ...] = ()
    anyone: Caller = field(default_factory=Caller)

    @property
    def open(self) -> bool:
        """Whether requests need no key."""
        return not self.entries

    @property
    def owners(self) -> int:
        """The number of different owners of keys."""
        return len({caller.name for _, caller in self.entries})

    def caller(self, key: str) -> Caller | None:
        """Return the owner of this key, or None."""
        return self.holder(digest(key))

    def holder(self, given: bytes) -> Caller | None:
        """Return the owner of the key with this digest, or None. Compares every entry, so the time does not reveal
        which matched."""
        found = None
        for known, caller in self.entries:
            if hmac.compare_digest(known, given):
                found = caller
        return found


class KeySource(Protocol):
    """The keys in force; the key file may change them at run time."""

    @property
    def open(self) -> bool: ...
    @property
    def anyone(self) -> Caller: ...
    def caller(self, key: str) -> Caller | None: ...
    def holder(self, given: bytes) -> Caller | None: ...


def digest(key: str) -> bytes:
    """Return the digest that is stored instead of the key. A key is long and random, so a plain digest cannot be
    reversed."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def key_ring(settings: AuthSettings) -> KeyRing:
    """Build the key ring of a configuration. Raises `ConfigError`."""
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
    # Without keys every client that can connect may run agents already; controlling the pool gives it no more than
    # that.
    anyone = Caller(concurrency=settings.concurrency, per_minute=settings.per_minute, admin=not entries)
    return KeyRing(tuple(entries), anyone)


def check_name(name: str, settings: AuthSettings) -> None:
    """Raise `ConfigError` for an unusable name. Sessions belong to the key's name, so two keys of one name are one
    owner; only the operator may decide that."""
    if not name.strip() or not name.isprintable():
        text = "needs a name that can be read: without one its sessions are those of a gateway without keys"
        raise ConfigError(f"auth.keys {name!r}", text)
    if name == DEFAULT and settings.api_key:
        text = "is what the sessions of auth.api_key (OSTLER_API_KEY) are kept under: call it something else"
        raise ConfigError(f"auth.keys {name!r}", text)


def canonical(root: str, name: str) -> str:
    """Return the resolved path of a root; it need not exist yet."""
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
    """Return the host names that a gateway without keys answers to. A page on any other name that resolves to this
    machine (DNS rebinding) is refused."""
    return LOOPBACK | {name.lower() for name in extra}
