"""The configuration: whatever stands in the file or the environment, the start fails with a sentence or not at all."""

import json
import os
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.load import load
from ostler.gateway.model.errors import GatewayError
from ostler.gateway.ops.settings_check import check
from ostler.pool.errors import PoolError
from tests.support.toml import written
from tools.fuzz.mutate import keys, walk
from tools.fuzz.target import Target

NO_KEY = ("is no TOML", "cannot be read")
"""Then there is none to name."""


class Start:
    """As far as `ostler serve` comes before it starts anything."""

    def __init__(self, _rng: Random) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self._file = Path(self._folder.name) / "ostler.toml"

    def take(self, frame: bytes) -> None:
        document = parsed(frame)
        environ: dict[str, str] = {}
        if isinstance(document, dict):
            given = document.get("env")
            environ = {
                name: text for name, text in pairs(given) if name and "=" not in name and "\0" not in name + text
            }
            frame = as_file(document.get("file"))
        self._file.write_bytes(frame)
        try:
            loaded = load(environ, config=str(self._file), data_dir=self._folder.name)
            check(loaded.settings, loaded.data_dir)
        except ConfigError as error:
            self._names_its_key(str(error), document)
        except (GatewayError, PoolError) as error:
            if not str(error).strip():
                raise AssertionError(f"an error without a word: {error!r}") from error

    def end(self) -> None:
        self._folder.cleanup()

    def _names_its_key(self, said: str, document: Any) -> None:
        """One of the keys that are there stands in it, or there is none."""
        file = document.get("file") if isinstance(document, dict) else None
        if any(reason in said for reason in NO_KEY) or not isinstance(file, dict):
            return
        named = [key for path, _ in walk(document) for key in keys(path)]
        # What no terminal can show is quoted as Python writes it.
        known = {form.lower() for key in named for form in (key, repr(key)[1:-1])}
        words = {part for key in known for part in (key, key.removeprefix("ostler_"), *key.split("__"))}
        told = said.replace(str(self._file), "").lower()
        if not any(word in told for word in words):
            raise AssertionError(f"no key is named in {said!r}")


def parsed(frame: bytes) -> Any:
    try:
        return json.loads(frame)
    except (ValueError, RecursionError):
        return None


def pairs(given: Any) -> list[tuple[str, str]]:
    """An environment, as far as a document can be one."""
    if not isinstance(given, dict):
        return []
    found = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in given.items()]
    return [(readable(name), readable(value)) for name, value in found]


def readable(text: str) -> str:
    """As `os.environ` would have it: bytes that are no text are lone surrogates of its own kind."""
    return os.fsdecode(text.encode("utf-8", "surrogatepass"))


def as_file(document: Any) -> bytes:
    """One that is no table, or too deep to be written here, is a file of its own kind."""
    if not isinstance(document, dict):
        return json.dumps(document).encode()
    try:
        return written(document).encode("utf-8", "surrogatepass")
    except RecursionError:
        return b"a = " + b"[" * 2000


TARGET = Target("config", "config", Start, heavy=True)
