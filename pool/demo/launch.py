"""How the demo agent is started, for the provider that pools it and for `ostler agent demo`."""

import os
import sys


def command_line(flags: list[str]) -> list[str]:
    """Return the argv of a demo agent: a bare interpreter on this folder, which needs no site-packages."""
    return [
        sys.executable,
        "-I",
        "-S",
        "-E",
        os.path.dirname(os.path.abspath(__file__)),
        "agent",
        "demo",
        *flags,
    ]
