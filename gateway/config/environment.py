"""The environment variables that are settings.

Rules:
- `OSTLER_<SECTION>__<KEY>=value`; a further `__` goes one level deeper (`OSTLER_PROVIDERS__DEMO__HOME`). Lists and
  tables are JSON. Short forms: `OSTLER_API_KEY`, `OSTLER_DATA_DIR`, `OSTLER_TRANSPORT_POOL_ENABLED`.
- An empty variable counts as not set.
- Any other `OSTLER_...` variable is an error: a mistyped `OSTLER_API_KEY` would leave a gateway open. Exempt are the
  variables that other parts of ostler read, and those that Kubernetes sets for a service named ostler.
"""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Struct

from ostler.gateway.config.errors import ConfigError, UnknownSettingKey, UnknownVariable
from ostler.gateway.config.settings import Settings
from ostler.pool.flag import VARIABLE as POOL_FLAG
from ostler.process.reaper.proc import MARKER

PREFIX = "OSTLER_"
API_KEY, CONFIG, DATA_DIR = "OSTLER_API_KEY", "OSTLER_CONFIG", "OSTLER_DATA_DIR"
RELAY = ("OSTLER_BRIDGE_SOCKET", "OSTLER_ACP_SESSION_BINDING")
NAMES = frozenset({API_KEY, CONFIG, DATA_DIR, POOL_FLAG, MARKER, *RELAY})
DEMO = "OSTLER_DEMO_"
"""Variables of the demo agent. A gateway that runs below a demo agent has them in its environment."""
SERVICE = re.compile(r"OSTLER_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
SERVICE_PORT = re.compile(r"(tcp|udp|sctp)://")


class Given(NamedTuple):
    """One setting, and where it was given."""

    key: str
    """Dotted, as in `auth.api_key`."""
    value: Any
    place: str


def from_environment(environ: Mapping[str, str]) -> list[Given]:
    """Return every variable that is a setting. Raises `UnknownVariable` for an `OSTLER_...` variable that nothing
    reads."""
    found: list[Given] = []
    for name, text in sorted(environ.items()):
        if not name.startswith(PREFIX) or not text:
            continue
        if name == API_KEY:
            check_text(name, text)
            found.append(Given("auth.api_key", text, name))
        elif "__" in name:
            check_text(name, text)
            words = [word.lower() for word in name.removeprefix(PREFIX).split("__")]
            kind = kind_of(words, name)
            found.append(Given(".".join(words), parsed(text, kind, name), name))
        elif not known(name, text):
            raise UnknownVariable(name, [*NAMES, *setting_names()])
    return found


def known(name: str, text: str) -> bool:
    """Whether a part of ostler reads this variable, or Kubernetes set it."""
    if name in NAMES or name.startswith(DEMO) or SERVICE.fullmatch(name):
        return True
    return name.endswith("_PORT") and SERVICE_PORT.match(text) is not None


def setting_names() -> list[str]:
    """Return the variables of all settings whose name is fixed."""
    sections = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    return [
        f"{PREFIX}{section}__{field.name}".upper()
        for section, kind in sections.items()
        if is_table(kind)
        for field in msgspec.structs.fields(kind)
    ]


def check_text(name: str, text: str) -> None:
    """Raise `ConfigError` for a value that is not UTF-8: the system passes any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(name, "is no UTF-8") from error


def kind_of(words: Sequence[str], place: str) -> Any:
    """Return the type at a dotted key; raises `UnknownSettingKey` if there is none."""
    kind: Any = Settings
    for depth, word in enumerate(words):
        if is_table(kind):
            fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
            if word not in fields:
                raise UnknownSettingKey(place, ".".join(words[: depth + 1]), list(fields))
            kind = fields[word]
        elif get_origin(kind) is dict:
            kind = get_args(kind)[1]
        else:
            raise ConfigError(place, f"{'.'.join(words[:depth])} has no parts")
    return kind


def parsed(text: str, kind: Any, place: str) -> Any:
    """Parse JSON where the setting is a list or a table, and return the bare text otherwise. A setting that takes any
    value is parsed as JSON if possible."""
    if kind is Any:
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(text)
        return text
    whole = next((part for part in (kind, *get_args(kind)) if get_origin(part) in (list, dict)), None)
    if whole is None:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(place, f"wants JSON, for example {json.dumps(example_of(whole))}: {error}") from error
    if not shaped(value, whole):
        raise ConfigError(place, f"is JSON of another shape; write it like {json.dumps(example_of(whole))}")
    return value


def shaped(value: Any, kind: Any) -> bool:
    """Whether lists and tables are in the right places; their contents are checked together with those of the file."""
    if get_origin(kind) is list:
        return isinstance(value, list) and all(shaped(part, get_args(kind)[0]) for part in value)
    return isinstance(value, dict) or not (get_origin(kind) is dict or is_table(kind))


def example_of(kind: Any) -> Any:
    """Return an example value for an error message; a table has its required keys only."""
    if get_origin(kind) is list:
        return [example_of(get_args(kind)[0])]
    if get_origin(kind) is dict:
        return {"...": example_of(get_args(kind)[1])}
    if is_table(kind):
        return {field.name: example_of(field.type) for field in msgspec.structs.fields(kind) if field.required}
    return "..."


def is_table(kind: Any) -> bool:
    """Whether the type is a section with keys of its own."""
    return isinstance(kind, type) and issubclass(kind, Struct)
