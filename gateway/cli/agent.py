"""`ostler agent NAME`: run an agent that ships with ostler on stdin and stdout.

This process becomes the agent: it is replaced by a bare interpreter that has loaded nothing the agent does not use. The
pid stays the same, so the parent process still holds the right one.
"""

import os
import sys

from ostler.demo.launch import command_line

SUMMARY = "run an agent that ships with ostler (agent demo --help)"
AGENTS = ("demo",)


USAGE = f"usage: ostler agent {{{','.join(AGENTS)}}} [flags]"


def run(argv: list[str]) -> int:  # noqa: RET503 - execv never returns
    """Replace this process by the named agent."""
    if argv and argv[0] in ("--help", "-h"):
        print(USAGE, "", f"  {SUMMARY}", sep="\n")
        return 0
    if not argv or argv[0] not in AGENTS:
        print(USAGE, file=sys.stderr)
        return 2
    os.execv(sys.executable, command_line(argv[1:]))  # noqa: S606 - argv is a list, no shell is involved
