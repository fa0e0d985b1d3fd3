"""From file and environment to `Settings`: the environment beats the file, the command line beats both.

Rules:
- `OSTLER_<SECTION>__<KEY>=value`; a further `__` goes one level deeper (`OSTLER_PROVIDERS__DEMO__HOME`). Lists and
  tables are JSON. Short forms: `OSTLER_API_KEY`, `OSTLER_DATA_DIR`, `OSTLER_TRANSPORT_POOL_ENABLED`.
- An empty variable counts as not set.
- `OSTLER_DEMO_...` and the bridge's two names are not settings; any other `OSTLER_..__..` that no field reads is an
  error.
"""

import contextlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from ostler.gateway.config.errors import ConfigError, UnknownKey
from ostler.gateway.config.key_file import key_file, keys_of, read_document
from ostler.gateway.config.settings import CHOICES, RULES, AuthSettings, KeySettings, Settings
from ostler.gateway.data_folder import data_folder
from ostler.pool.flag import pool_enabled

PREFIX = "OSTLER_"
FILE = "ostler.toml"
HASH = 64


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where they came from."""

    settings: Settings
    data_dir: Path
    file: Path | None
    configured: AuthSettings
    """Who may ask, without the key file."""


def load(
    environ: Mapping[str, str],
    *,
    config: str | None = None,
    data_dir: str | None = None,
    overrides: Sequence[tuple[str, Any]] = (),
) -> Loaded:
    """The configuration in force. `overrides` are (dotted key, value) from a command line."""
    folder = data_folder(data_dir, environ)
    file = find_file(environ, config, folder)
    document = {} if file is None else read_file(file)
    place = "environment" if file is None else str(file)
    if file is not None:
        check_keys(document, Settings, str(file), "")
    for key, value in [*from_environment(environ), *overrides]:
        put(document, key.split("."), value, place)
    settings = convert(document, place)
    enabled = pool_enabled(environ, configured=settings.pool.enabled)
    settings = msgspec.structs.replace(settings, pool=msgspec.structs.replace(settings.pool, enabled=enabled))
    configured = settings.auth
    settings = with_key_file(settings, folder)
    check_choices(settings, place)
    check_keys_of_auth(settings, place)
    return Loaded(settings, folder, file, configured)


def fresh_auth(loaded: Loaded) -> AuthSettings:
    """Who may ask by the key file as it is now."""
    before = msgspec.structs.replace(loaded.settings, auth=loaded.configured)
    settings = with_key_file(before, loaded.data_dir)
    place = str(key_file(settings.auth, loaded.data_dir))
    check_choices(settings, place)
    check_keys_of_auth(settings, place)
    return settings.auth


def find_file(environ: Mapping[str, str], given: str | None, folder: Path) -> Path | None:
    """The named file, which must exist, or `ostler.toml` here or in the data folder, which need not."""
    named = given or environ.get("OSTLER_CONFIG")
    if named:
        if not Path(named).is_file():
            raise ConfigError(named, "there is no such file")
        return Path(named)
    return next((path for path in (Path(FILE), folder / FILE) if path.is_file()), None)


def read_file(path: Path) -> dict[str, Any]:
    """The file as nested tables."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read: {error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(str(path), f"is no TOML: {error}") from error


def from_environment(environ: Mapping[str, str]) -> list[tuple[str, Any]]:
    """(dotted key, value) of every variable that is a setting."""
    found: list[tuple[str, Any]] = []
    key = environ.get("OSTLER_API_KEY")
    if key:
        check_text("OSTLER_API_KEY", key)
        found.append(("auth.api_key", key))
    for name, text in sorted(environ.items()):
        if not name.startswith(PREFIX) or "__" not in name or not text:
            continue
        check_text(name, text)
        words = [word.lower() for word in name.removeprefix(PREFIX).split("__")]
        kind = kind_of(words, name)
        found.append((".".join(words), parsed(text, kind, name)))
    return found


def check_text(name: str, text: str) -> None:
    """The system hands over any bytes; those that are no text cannot be a setting."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(name, "is no UTF-8") from error


def kind_of(words: Sequence[str], place: str) -> Any:
    """The type at a dotted key; `UnknownKey` where there is none."""
    kind: Any = Settings
    for depth, word in enumerate(words):
        if isinstance(kind, type) and issubclass(kind, Struct):
            fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
            if word not in fields:
                raise UnknownKey(place, ".".join(words[: depth + 1]), list(fields))
            kind = fields[word]
        elif get_origin(kind) is dict:
            kind = get_args(kind)[1]
        else:
            raise ConfigError(place, f"{'.'.join(words[:depth])} has no parts")
    return kind


def parsed(text: str, kind: Any, place: str) -> Any:
    """JSON for what has parts, the bare text for the rest; whichever it is where any value may stand."""
    if kind is Any:
        with contextlib.suppress(ValueError):
            return json.loads(text)
        return text
    parts = [kind, *get_args(kind)]
    if not any(get_origin(part) in (list, dict) for part in parts):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(place, f'wants JSON, for example ["a", "b"]: {error}') from error


def put(document: dict[str, Any], words: Sequence[str], value: Any, place: str) -> None:
    """Set a value in nested tables."""
    *way, last = words
    for depth, word in enumerate(way):
        document = document.setdefault(word, {})
        if not isinstance(document, dict):
            raise ConfigError(place, f"{'.'.join(way[: depth + 1])} must be a table")
    document[last] = value


def check_keys(value: Any, kind: Any, place: str, prefix: str) -> None:
    """Every key must be read by somebody; msgspec says "unknown field" and not which one was meant."""
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Struct):
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        for name, part in value.items():
            if name not in fields:
                raise UnknownKey(place, f"{prefix}{name}", list(fields))
            check_keys(part, fields[name], place, f"{prefix}{name}.")
    elif isinstance(value, dict) and get_origin(kind) is dict:
        for name, part in value.items():
            check_keys(part, get_args(kind)[1], place, f"{prefix}{name}.")
    elif isinstance(value, list) and get_origin(kind) is list:
        for part in value:
            check_keys(part, get_args(kind)[0], place, prefix)


def convert(document: dict[str, Any], place: str) -> Settings:
    """Typed, or an error that names the key."""
    try:
        return msgspec.convert(document, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(place, str(error).replace("`$.", "`")) from error


def check_choices(settings: Settings, place: str) -> None:
    """Words of which only a few mean something."""
    for key, choices in CHOICES.items():
        section, name = key.split(".")
        value = msgspec.structs.asdict(msgspec.structs.asdict(settings)[section])[name]
        if value not in choices:
            raise ConfigError(place, f"{key} = {value!r}; use one of {', '.join(choices)}")
    words = {"pool.permissions": settings.pool.permissions}
    words |= {f"pool.model_permissions.{model}": word for model, word in settings.pool.model_permissions.items()}
    words |= {f"auth.keys {key.name!r} permissions": key.permissions for key in settings.auth.keys}
    for key, word in words.items():
        if word is not None and word not in RULES:
            raise ConfigError(place, f"{key} = {word!r}; use one of {', '.join(RULES)}")


def with_key_file(settings: Settings, folder: Path) -> Settings:
    """The keys of the configuration and those of the key file."""
    path = key_file(settings.auth, folder)
    tables = read_document(path, named=settings.auth.key_file is not None)
    check_keys(tables, list[KeySettings], str(path), "keys.")
    keys = [*settings.auth.keys, *keys_of(tables, path)]
    return msgspec.structs.replace(settings, auth=msgspec.structs.replace(settings.auth, keys=keys))


def check_keys_of_auth(settings: Settings, place: str) -> None:
    """A digest that is no digest would lock its owner out without a word."""
    for key in settings.auth.keys:
        if len(key.sha256) != HASH or any(char not in "0123456789abcdef" for char in key.sha256):
            raise ConfigError(place, f"auth.keys {key.name!r}: sha256 must be 64 lowercase hex digits")
    names = [key.name for key in settings.auth.keys]
    if len(set(names)) != len(names):
        raise ConfigError(place, "auth.keys: two keys have the same name")
