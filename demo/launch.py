"""The command that starts the demo agent, for its provider in the pool and for `ostler agent demo`."""

import os
import sys


def command_line(flags: list[str]) -> list[str]:
    """Return the argv of a demo agent: a bare interpreter, which needs no site-packages.

    It names the file and not the folder: for a folder the interpreter imports `runpy` first, a tenth of the agent's
    start.
    """
    return [
        sys.executable,
        "-I",
        "-S",
        "-E",
        os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py"),
        "agent",
        "demo",
        *flags,
    ]
