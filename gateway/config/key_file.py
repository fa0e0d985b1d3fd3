"""The file of API keys, separate from the configuration: `keys.toml` in the data folder, or `auth.key_file`.

Rules:
- It holds digests, never a key.
- It must belong to its owner alone (0600), or the gateway does not start: a user who can write to it can grant
  themselves access.
- An absent file holds no keys, unless the configuration names it; then it is an error.
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
    """Return the path of the file, whether or not it exists."""
    return folder / FILE if auth.key_file is None else spelled_out(auth.key_file)


def read_document(path: Path, *, named: bool) -> list[Any]:
    """Return the tables of the file. An absent file has none; if it is `named`, that is a `ConfigError`."""
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
        # Check the open file, not its name: the name may point elsewhere a moment later.
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
    """Convert the tables to settings. Raises `ConfigError` that names the file and the key."""
    try:
        return msgspec.convert(tables, list[KeySettings])
    except msgspec.ValidationError as error:
        raise ConfigError(str(path), str(error).replace("`$", "`keys")) from error


def check_private(path: Path, facts: os.stat_result) -> None:
    """Raise `ConfigError` unless this is a regular file of this user or root that no other user can read or write."""
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigError(str(path), "is no regular file")
    if facts.st_uid not in (os.geteuid(), 0):
        raise ConfigError(str(path), "belongs to another user; keys that others can write are worth nothing")
    if facts.st_mode & 0o077:
        raise ConfigError(str(path), f"can be used by others (mode {facts.st_mode & 0o777:o}): chmod 600 {path}")


def table_of(name: str, key: str) -> str:
    """Return the TOML for one key, for the file or for `[auth]`. It contains the digest only."""
    return f'name = "{name}"\nsha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n'


def append(path: Path, table: str) -> None:
    """Add one key. The file is created with mode 0600 from the start, so there is no moment in which others can read
    it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "ab") as target:
        check_private(path, os.fstat(target.fileno()))
        target.write(f"\n[[keys]]\n{table}".encode())
        target.flush()
        os.fsync(target.fileno())
