"""The variables of the environment that are settings.

Rules:
- `OSTLER_<SECTION>__<KEY>=value`; a further `__` goes one level deeper (`OSTLER_PROVIDERS__DEMO__HOME`). Lists and
  tables are JSON. Short forms: `OSTLER_API_KEY`, `OSTLER_DATA_DIR`, `OSTLER_TRANSPORT_POOL_ENABLED`.
- An empty variable counts as not set.
- Any other `OSTLER_...` that nothing reads is an error: a mistyped `OSTLER_API_KEY` would leave a gateway open. Known
  beside the settings are the names that other parts of ostler read, and those that Kubernetes sets for a service that
  is called ostler.
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
"""The demo agent's own; where a gateway runs below one, its environment has them."""
SERVICE = re.compile(r"OSTLER_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
SERVICE_PORT = re.compile(r"(tcp|udp|sctp)://")


class Given(NamedTuple):
    """A setting, and who says so."""

    key: str
    """Dotted."""
    value: Any
    place: str


def from_environment(environ: Mapping[str, str]) -> list[Given]:
    """Every variable that is a setting."""
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
    """Whether somebody reads it, or nobody of ours has set it."""
    if name in NAMES or name.startswith(DEMO) or SERVICE.fullmatch(name):
        return True
    return name.endswith("_PORT") and SERVICE_PORT.match(text) is not None


def setting_names() -> list[str]:
    """The variables of all settings with a fixed name."""
    sections = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    return [
        f"{PREFIX}{section}__{field.name}".upper()
        for section, kind in sections.items()
        if is_table(kind)
        for field in msgspec.structs.fields(kind)
    ]


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
    """JSON for what has parts, the bare text for the rest; whichever it is where any value may stand."""
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
    """Whether lists and tables are where they belong; what they hold is checked with the file's."""
    if get_origin(kind) is list:
        return isinstance(value, list) and all(shaped(part, get_args(kind)[0]) for part in value)
    return isinstance(value, dict) or not (get_origin(kind) is dict or is_table(kind))


def example_of(kind: Any) -> Any:
    """A value as it is written: of a table what it must have."""
    if get_origin(kind) is list:
        return [example_of(get_args(kind)[0])]
    if get_origin(kind) is dict:
        return {"...": example_of(get_args(kind)[1])}
    if is_table(kind):
        return {field.name: example_of(field.type) for field in msgspec.structs.fields(kind) if field.required}
    return "..."


def is_table(kind: Any) -> bool:
    """Whether it has keys of its own."""
    return isinstance(kind, type) and issubclass(kind, Struct)
