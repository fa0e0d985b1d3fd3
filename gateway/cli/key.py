"""`ostler key new|list`: API keys. A key is shown once, when it is created; only its digest is stored."""

import argparse
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ostler.gateway.config.settings import KeySettings

SUMMARY = "make or list API keys (key new NAME | key list)"


def run(argv: list[str]) -> int:
    """Run the verb; return 0."""
    parser = argparse.ArgumentParser(prog="ostler key", description="Make or list API keys.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    new = verbs.add_parser("new", help="make a key and show it, this once")
    new.add_argument("name", help="whose key it is: letters, digits, '_', '.', '-'")
    new.add_argument("--write", action="store_true", help="put its digest into the key file")
    listing = verbs.add_parser("list", help="the names of all keys")
    listing.add_argument("--json", action="store_true", help="one JSON object per line, with what the key may do")
    for each in (new, listing):
        each.add_argument("--config", metavar="FILE")
        each.add_argument("--data-dir", metavar="DIR")
    given = parser.parse_args(argv)

    from ostler.gateway.config.key_file import key_file  # noqa: PLC0415 - only this command needs it
    from ostler.gateway.config.load import load  # noqa: PLC0415 - see above

    making = given.verb == "new" and given.write
    loaded = load(os.environ, config=given.config, data_dir=given.data_dir, new_key_file=making)
    names = [key.name for key in loaded.settings.auth.keys]
    if given.verb == "new":
        make(given.name, names, key_file(loaded.settings.auth, loaded.data_dir) if making else None)
    elif given.json:
        for key in loaded.settings.auth.keys:
            print(json.dumps(facts_of(key)))
    else:
        print("\n".join(names) if names else "there are no keys; ostler key new NAME makes one")
    return 0


def facts_of(key: "KeySettings") -> dict[str, Any]:
    """The settings of a key without its digest."""
    from ostler.gateway.config.settings import shown  # noqa: PLC0415 - see `run`

    facts: dict[str, Any] = shown(key)
    del facts["sha256"]
    return facts


def make(name: str, taken: list[str], file: Path | None) -> None:
    """Create a key. It is printed alone on the first line, so that a script can read it from there."""
    from ostler.gateway.config.errors import ConfigError  # noqa: PLC0415 - see `run`
    from ostler.gateway.config.key_file import NAME, PREFIX, append, table_of  # noqa: PLC0415 - see `run`

    if NAME.fullmatch(name) is None:
        raise ConfigError("key", f"{name[:80]!r} is no name: use 1 to 64 letters, digits, '_', '.' or '-'")
    if name in taken:
        raise ConfigError("key", f"there is a key named {name!r} already; remove its table first, or take another name")
    key = PREFIX + secrets.token_urlsafe(32)
    table = table_of(name, key)
    if file is None:
        print(
            f"{key}\n\nThis is the only time it is shown. Put this into ostler.toml:\n\n[[auth.keys]]\n{table}", end=""
        )
    else:
        append(file, table)
        print(f"{key}\n\nThis is the only time it is shown. Its digest is in {file}.")
        print("A running gateway reads it when it gets SIGHUP, or at its next start.")
