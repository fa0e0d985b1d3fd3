"""`ostler doctor`: which agents are installed, have credentials and suit a pool; how fast they start; and whether two
of their sessions keep their secrets. Starts each agent once and asks its model six short questions, which may cost
money.

Exit codes: 0 all is well, 1 a fault was found, 2 wrong usage, 130 ended by Ctrl-C.
"""

import argparse
import asyncio
import json
import os
import secrets
import sys
import time

SUMMARY = "look at the installed agents, try each one, and say what to mend"


def run(argv: list[str]) -> int:
    """Run the examination; return the exit code."""
    try:
        given = parser().parse_args(argv)
    except SystemExit as over:
        return int(over.code or 0)

    from ostler.gateway.server.importing import importing  # noqa: PLC0415 - `ostler doctor --help` needs none of this

    with importing():
        from ostler.gateway.config.load import load  # noqa: PLC0415 - see above
        from ostler.gateway.interrupts import raised  # noqa: PLC0415 - see above
        from ostler.gateway.ops.doctor.visit import DoctorDeps, Visit, examine  # noqa: PLC0415 - see above
        from ostler.gateway.ops.doctor.words import report_lines  # noqa: PLC0415 - see above
        from ostler.pool.provider import callings  # noqa: PLC0415 - see above
        from ostler.pool.providers import load as providers  # noqa: PLC0415 - see above

    names = callings(providers())
    unknown = sorted(set(given.providers) - set(names))
    if unknown:
        print(f"ostler doctor: no such agent: {', '.join(unknown)}; known: {', '.join(providers())}", file=sys.stderr)
        return 2
    loaded = load(os.environ, config=given.config, data_dir=given.data_dir)
    visit = Visit(
        loaded,
        os.environ,
        [names[called] for called in given.providers],
        given.model,
        given.start,
        given.start and given.canary,
        given.patience,
    )
    try:
        with raised():
            report = asyncio.run(examine(visit, DoctorDeps(time.monotonic, word, tell)))
    except KeyboardInterrupt:
        print("ostler doctor: stopped; what was started is ended", file=sys.stderr)
        raise
    print(json.dumps(report.as_json()) if given.json else "\n".join(report_lines(report)))
    return 0 if report.healthy else 1


def parser() -> argparse.ArgumentParser:
    """The arguments of the command."""
    arguments = argparse.ArgumentParser(prog="ostler doctor", description=SUMMARY)
    arguments.add_argument("providers", nargs="*", metavar="AGENT", help="gemini, codex-app-server, ... (all)")
    arguments.add_argument("--model", help="the model to ask (the configured one, else the agent's own choice)")
    arguments.add_argument("--no-start", dest="start", action="store_false", help="only look, start nothing")
    arguments.add_argument("--no-canary", dest="canary", action="store_false", help="start, but ask no model anything")
    arguments.add_argument("--patience", type=float, default=300.0, metavar="SECONDS", help="for each agent (300)")
    arguments.add_argument("--config", metavar="FILE", help="configuration (OSTLER_CONFIG, else ./ostler.toml)")
    arguments.add_argument("--data-dir", metavar="FOLDER", help="default: OSTLER_DATA_DIR, else the XDG state folder")
    arguments.add_argument("--json", action="store_true", help="one JSON object")
    return arguments


def word() -> str:
    """A random word that no model would produce by itself."""
    return f"heron{secrets.token_hex(4)}"


def tell(provider: str, text: str) -> None:
    """Print progress to stderr; stdout has only the report."""
    print(f"{provider}: {text} ...", file=sys.stderr, flush=True)
