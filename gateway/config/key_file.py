"""The file of API keys, beside the configuration: `keys.toml` in the data folder, or `auth.key_file`.

Rules: it holds digests, never a key; it belongs to its owner alone (0600), or the gateway does not start: whoever could
write there could let themselves in. An absent file holds no keys, unless it was named.
"""

import hashlib
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from ostler.gateway.config.data_folder import spelled_out
from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.settings import AuthSettings, KeySettings

FILE = "keys.toml"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
PREFIX = "ostler_"


def key_file(auth: AuthSettings, folder: Path) -> Path:
    """Where it is."""
    return folder / FILE if auth.key_file is None else spelled_out(auth.key_file)


def read_document(path: Path, *, named: bool) -> list[Any]:
    """The tables of the file; an absent one has none, unless it was named."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        if named:
            raise ConfigError(
                "auth.key_file", f"there is no file {path}; ostler key new NAME --write makes it"
            ) from error
        return []
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
    try:
        # Of the file that is open, not of the name: the name may lead elsewhere a moment later.
        check_private(path, os.fstat(file))
    except ConfigError:
        os.close(file)
        raise
    with os.fdopen(file, "rb") as source:
        try:
            document = tomllib.loads(source.read().decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(str(path), f"is no TOML: {error}") from error
    if set(document) - {"keys"} or not isinstance(document.get("keys", []), list):
        raise ConfigError(str(path), "holds [[keys]] tables and nothing else")
    found: list[Any] = document.get("keys", [])
    return found


def keys_of(tables: list[Any], path: Path) -> list[KeySettings]:
    """Typed."""
    try:
        return msgspec.convert(tables, list[KeySettings])
    except msgspec.ValidationError as error:
        raise ConfigError(str(path), str(error).replace("`$", "`keys")) from error


def check_private(path: Path, facts: os.stat_result) -> None:
    """A regular file of ours that nobody else can read or write."""
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigError(str(path), "is no regular file")
    if facts.st_uid not in (os.geteuid(), 0):
        raise ConfigError(str(path), "belongs to another user; keys that others can write are worth nothing")
    if facts.st_mode & 0o077:
        raise ConfigError(str(path), f"can be used by others (mode {facts.st_mode & 0o777:o}): chmod 600 {path}")


def table_of(name: str, key: str) -> str:
    """What stands for a key in the file or in `[auth]`; its digest only."""
    return f'name = "{name}"\nsha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n'


def append(path: Path, table: str) -> None:
    """One more key. Made with the mode it must have: no moment in which others could look in."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "ab") as target:
        check_private(path, os.fstat(target.fileno()))
        target.write(f"\n[[keys]]\n{table}".encode())
        target.flush()
        os.fsync(target.fileno())
