"""`ostler config check|show`: the configuration in force, without starting anything. `ostler config reload`: make the
running gateway read it again.

Exit codes: 0 good, 1 wrong, 2 called wrongly; `reload` adds 3 no gateway runs there, 4 refused, nothing changed.
"""

import argparse
import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ostler.gateway.ops.console.admin_client import AdminClient

SUMMARY = "check, show or reload the configuration (config check|show|reload)"


def run(argv: list[str]) -> int:
    """Return the exit code; raises `ConfigError` for a configuration that is wrong."""
    parser = argparse.ArgumentParser(prog="ostler config", description="Check, show or reload the configuration.")
    parser.add_argument("verb", choices=("check", "show", "reload"))
    parser.add_argument("--config", metavar="FILE")
    parser.add_argument("--data-dir", metavar="DIR")
    parser.add_argument("--json", action="store_true", help="one JSON object on one line")
    given = parser.parse_args(argv)
    if given.verb == "reload":
        from ostler.gateway.cli.pool import carry_out  # noqa: PLC0415 - see above

        return carry_out(reload, given, "ostler config")

    from ostler.gateway.config.load import load  # noqa: PLC0415 - see above
    from ostler.gateway.config.settings import shown  # noqa: PLC0415 - see above
    from ostler.gateway.ops.settings_check import (  # noqa: PLC0415 - only this command needs it
        check,
        default_trouble,
        levels_in_force,
        work_folder,
    )

    loaded = load(os.environ, config=given.config, data_dir=given.data_dir)
    models, pool = check(loaded.settings, loaded.data_dir, environ=os.environ)
    levels = levels_in_force(loaded.settings, loaded.data_dir, environ=os.environ)
    place = loaded.file or "no ostler.toml: defaults and environment"
    facts = {"file": str(place), "data_dir": str(loaded.data_dir)}
    if given.verb == "show":
        print(json.dumps({**facts, **shown(loaded.settings)}, indent=None if given.json else 2))
        return 0
    trouble = default_trouble(models, pool, work_folder(loaded.settings, loaded.data_dir), os.environ)
    if given.json:
        not_ready = {"not_ready": trouble} if trouble else {}
        print(json.dumps({"good": True, **facts, "permissions": levels, **not_ready}))
        return 0
    print(f"good: {place}; data in {loaded.data_dir}")
    print("\n".join(levels))
    if trouble:
        print(f"but not ready: the default model {models.default!r} cannot be started here: {trouble}")
    return 0


def reload(gateway: "AdminClient", given: argparse.Namespace) -> int:
    """Ask the gateway of the data folder to read its configuration again."""
    told = gateway.reload()
    if given.json:
        print(json.dumps(told))
    else:
        print(f"taken: {', '.join(told['taken']) or 'nothing has changed'}")
        if told["ignored"]:
            print(f"ignored until a restart: {', '.join(told['ignored'])}")
    return 0
