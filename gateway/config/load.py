"""Builds `Settings` from file and environment: the environment overrides the file, the command line overrides both.

Rule: an error names the place that set the wrong value: the file, the variable, or the command line.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from ostler.gateway.config.data_folder import data_folder, usable
from ostler.gateway.config.environment import CONFIG, Given, from_environment
from ostler.gateway.config.errors import ConfigError, UnknownSettingKey
from ostler.gateway.config.key_file import key_file, keys_of, read_document
from ostler.gateway.config.settings import CHOICES, RULES, KeySettings, Settings
from ostler.pool.flag import pool_enabled

FILE = "ostler.toml"
NOTHING: Mapping[str, str] = MappingProxyType({})
HASH = 64
COMMAND_LINE = "the command line"
PATH = re.compile(r"`\$\.?([^`]*)`")
"""How msgspec names a key in its error messages."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, and where they came from."""

    settings: Settings
    data_dir: Path
    file: Path | None
    document: Mapping[str, Any] = field(default_factory=dict)
    """The content of the file, before the environment and the command line changed it."""
    again: "Callable[[], Loaded] | None" = field(default=None, repr=False, compare=False)
    """Loads file, environment and command line once more, on any thread. Raises `ConfigError`."""


def load(
    environ: Mapping[str, str],
    *,
    config: str | None = None,
    data_dir: str | None = None,
    overrides: Sequence[tuple[str, Any]] = (),
    new_key_file: bool = False,
) -> Loaded:
    """Return the configuration in force. Raises `ConfigError`.

    `overrides` are (dotted key, value) from a command line. `new_key_file` allows a named key file to be absent, for
    the command that creates it.
    """
    folder = data_folder(data_dir, environ)
    file = find_file(environ, config, folder)
    document = {} if file is None else read_file(file)
    written = deepcopy(document)
    place = "environment" if file is None else str(file)
    if file is not None:
        check_keys(document, Settings, str(file), "")
    given = [*from_environment(environ), *(Given(key, value, COMMAND_LINE) for key, value in overrides)]
    for one in given:
        put(document, one.key.split("."), one.value, one.place)
    origins = {one.key: one.place for one in given}
    settings = convert(document, place, origins)
    enabled = pool_enabled(environ, configured=settings.pool.enabled)
    settings = msgspec.structs.replace(settings, pool=msgspec.structs.replace(settings.pool, enabled=enabled))
    settings = with_key_file(settings, folder, may_lack=new_key_file)
    check_choices(settings, place, origins)
    check_keys_of_auth(settings, place)
    again = partial(
        load, environ, config=None if file is None else str(file), data_dir=str(folder), overrides=overrides
    )
    return Loaded(settings, folder, file, written, again)


def changed_keys(before: Loaded, now: Loaded) -> list[str]:
    """Return the keys whose value in the file differs."""
    old, new = dict(flat(before.document)), dict(flat(now.document))
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value with its dotted key."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def find_file(environ: Mapping[str, str], given: str | None, folder: Path) -> Path | None:
    """Return the named file, which must exist, or `ostler.toml` in the working directory or the data folder, which need
    not."""
    named = given or environ.get(CONFIG)
    if named:
        if not _is_file(Path(named)):
            raise ConfigError(named, "there is no such file")
        return Path(named)
    if _is_file(Path(FILE)):
        return Path(FILE)
    with usable(folder):
        return folder / FILE if (folder / FILE).is_file() else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise ConfigError(str(path), f"cannot be looked at: {error.strerror}") from error


def read_file(path: Path) -> dict[str, Any]:
    """Return the file as nested tables. Raises `ConfigError` if it cannot be read or is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read: {error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(str(path), f"is no TOML: {error}") from error


def put(document: dict[str, Any], words: Sequence[str], value: Any, place: str) -> None:
    """Set a value in nested tables, creating tables on the way."""
    *way, last = words
    for depth, word in enumerate(way):
        document = document.setdefault(word, {})
        if not isinstance(document, dict):
            raise ConfigError(place, f"{'.'.join(way[: depth + 1])} must be a table")
    document[last] = value


def check_keys(value: Any, kind: Any, place: str, prefix: str) -> None:
    """Raise `UnknownSettingKey` for a key that nothing reads. msgspec also rejects it but cannot name the nearest known
    key."""
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Struct):
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        for name, part in value.items():
            if name not in fields:
                raise UnknownSettingKey(place, f"{prefix}{name}", list(fields))
            check_keys(part, fields[name], place, f"{prefix}{name}.")
    elif isinstance(value, dict) and get_origin(kind) is dict:
        for name, part in value.items():
            check_keys(part, get_args(kind)[1], place, f"{prefix}{name}.")
    elif isinstance(value, list) and get_origin(kind) is list:
        for part in value:
            check_keys(part, get_args(kind)[0], place, prefix)


def convert(document: dict[str, Any], place: str, origins: Mapping[str, str]) -> Settings:
    """Convert to typed settings. Raises `ConfigError` that names the key and the place that set it."""
    try:
        return msgspec.convert(document, Settings, strict=False)
    except msgspec.ValidationError as error:
        named = PATH.search(str(error))
        at = place if named is None else origin(named[1], place, origins)
        raise ConfigError(at, str(error).replace("`$.", "`")) from error


def origin(key: str, place: str, origins: Mapping[str, str]) -> str:
    """Return the place that set a key, or a table around it: a variable or the command line; else the file."""
    return next((by for given, by in origins.items() if re.match(rf"{re.escape(given)}(?![^.\[])", key)), place)


def check_choices(settings: Settings, place: str, origins: Mapping[str, str] = NOTHING) -> None:
    """Raise `ConfigError` for a value outside the fixed choices of its key."""
    for key, choices in CHOICES.items():
        section, name = key.split(".")
        value = msgspec.structs.asdict(msgspec.structs.asdict(settings)[section])[name]
        if value not in choices:
            raise ConfigError(origin(key, place, origins), f"{key} = {value!r}; use one of {', '.join(choices)}")
    words: dict[str, str | None] = {"pool.permissions": settings.pool.permissions}
    words |= {f"pool.model_permissions.{model}": word for model, word in settings.pool.model_permissions.items()}
    words |= {f"auth.keys {key.name!r} permissions": key.permissions for key in settings.auth.keys}
    for key, word in words.items():
        if word is not None and word not in RULES:
            raise ConfigError(origin(key, place, origins), f"{key} = {word!r}; use one of {', '.join(RULES)}")


def with_key_file(settings: Settings, folder: Path, *, may_lack: bool = False) -> Settings:
    """Add the keys of the key file to those of the configuration."""
    path = key_file(settings.auth, folder)
    tables = read_document(path, named=settings.auth.key_file is not None and not may_lack)
    check_keys(tables, list[KeySettings], str(path), "keys.")
    keys = [*settings.auth.keys, *keys_of(tables, path)]
    return msgspec.structs.replace(settings, auth=msgspec.structs.replace(settings.auth, keys=keys))


def check_keys_of_auth(settings: Settings, place: str) -> None:
    """Check digests and names. A malformed digest would lock its owner out without any message."""
    for key in settings.auth.keys:
        if len(key.sha256) != HASH or any(char not in "0123456789abcdef" for char in key.sha256):
            raise ConfigError(place, f"auth.keys {key.name!r}: sha256 must be 64 lowercase hex digits")
    names = [key.name for key in settings.auth.keys]
    if len(set(names)) != len(names):
        raise ConfigError(place, "auth.keys: two keys have the same name")
