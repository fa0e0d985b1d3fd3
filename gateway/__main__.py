"""The `ostler` command: a table of commands, one module each in `gateway/cli/`.

Rules of this file:
- It imports a command's code only when that command runs, because start-up time is a feature.
- Exit codes: 0 done, 1 failed, 2 called wrongly, 130 ended by Ctrl-C.
"""

import os
import sys
from importlib import import_module
from types import ModuleType

from ostler.gateway.exit_codes import DONE, WRONG, carried_out
from ostler.gateway.interrupts import fatal

CLI = "ostler.gateway.cli"
NEARBY = {"status": "pool show", "show": "pool show", "why": "pool why", "watch": "pool watch", "run": "serve"}
"""Words that users type instead of a command's real name, for the hint "did you mean"."""


def command_names() -> list[str]:
    """Return the names of all commands. Reads the folder, so adding a file adds a command."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cli")
    return sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".py") and name != "__init__.py")


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    with fatal():
        return carried_out(" ".join(["ostler", *words[:1]]), lambda: obey(words))


def obey(words: list[str]) -> int:
    """Find the command and run it."""
    if not words:
        print(usage(), file=sys.stderr)
        return WRONG
    if words[0] in ("--help", "-h", "help"):
        print(usage())
        return DONE
    if words[0] in ("--version", "-V"):
        print(f"ostler {version()}")
        return DONE
    if words[0] not in command_names():
        meant = NEARBY.get(words[0])
        hint = f"; did you mean `ostler {meant}`?" if meant else ""
        print(f"ostler: unknown command {words[0]!r}{hint}\n\n{usage()}", file=sys.stderr)
        return WRONG
    return int(command(words[0]).run(words[1:]))


def command(name: str) -> ModuleType:
    """Import the module of one command; it has `run(words)` and `SUMMARY`."""
    return import_module(f"{CLI}.{name}")


def usage() -> str:
    """Return the table of commands. Imports all of them; only a request for help pays for that."""
    rows = [(name, str(command(name).SUMMARY)) for name in command_names()]
    width = max(len(name) for name, _ in rows)
    return "\n".join(["usage: ostler COMMAND [ARGUMENTS]", "", *(f"  {name:<{width}}  {text}" for name, text in rows)])


def version() -> str:
    """Return the installed version."""
    from importlib.metadata import version as installed  # noqa: PLC0415 - 20 ms that only --version needs

    return installed("ostler")


if __name__ == "__main__":
    sys.exit(main())
