"""`ostler config check|show`: the configuration in force, without starting anything."""

import argparse
import json
import os

SUMMARY = "check or show the configuration (config check|show)"


def run(argv: list[str]) -> int:
    """0 when the configuration is good."""
    parser = argparse.ArgumentParser(prog="ostler config", description="Check or show the configuration.")
    parser.add_argument("verb", choices=("check", "show"))
    parser.add_argument("--config", metavar="FILE")
    parser.add_argument("--data-dir", metavar="DIR")
    parser.add_argument("--json", action="store_true", help="one JSON object on one line")
    given = parser.parse_args(argv)

    from ostler.gateway.config.check import levels_in_force  # noqa: PLC0415 - only this command needs it
    from ostler.gateway.config.load import load  # noqa: PLC0415 - see above
    from ostler.gateway.config.settings import shown  # noqa: PLC0415 - see above

    loaded = load(os.environ, config=given.config, data_dir=given.data_dir)
    levels = levels_in_force(loaded.settings, loaded.data_dir, environ=os.environ)
    place = loaded.file or "no ostler.toml: defaults and environment"
    facts = {"file": str(place), "data_dir": str(loaded.data_dir)}
    if given.verb == "show":
        print(json.dumps({**facts, **shown(loaded.settings)}, indent=None if given.json else 2))
    elif given.json:
        print(json.dumps({"good": True, **facts, "permissions": levels}))
    else:
        print(f"good: {place}; data in {loaded.data_dir}")
        print("\n".join(levels))
    return 0
