"""`ostler top`: live full-screen view of the pool of a running gateway; without a terminal, the same as `pool watch`.

Exit codes are those of `ostler pool`.
"""

import argparse
import shutil
import sys

from ostler.gateway.cli.pool import DONE, carry_out, common_arguments, until_interrupted, watch
from ostler.gateway.ops.console.admin_client import AdminClient
from ostler.gateway.ops.console.console_text import state_lines

SUMMARY = "live view of the pool of a running gateway"
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
TURNS = 50


def run(argv: list[str]) -> int:
    """Run until Ctrl-C, or until the gateway stops."""
    parser = argparse.ArgumentParser(prog="ostler top", description=SUMMARY, parents=[common_arguments()])
    try:
        options = parser.parse_args(argv)
    except SystemExit as over:
        return int(over.code or 0)
    return carry_out(watch if options.json or not sys.stdout.isatty() else top, options, "ostler top")


def top(client: AdminClient, _options: argparse.Namespace) -> int:
    """Draw each state. Plain escape sequences instead of a curses library: it starts as fast as `show`."""
    states = client.states()
    first = next(states)  # errors of the connection appear before the screen is switched
    with until_interrupted():
        sys.stdout.write(ENTER)
        try:
            paint(state_lines(first, TURNS))
            for state in states:
                paint(state_lines(state, TURNS))
        finally:
            sys.stdout.write(LEAVE)
            sys.stdout.flush()
        print("the gateway has stopped")
    return DONE


def paint(lines: list[str]) -> None:
    """Overwrite the screen in place, so that nothing flickers."""
    width, height = shutil.get_terminal_size()
    shown = [f"{text[:width]}{REST_OF_LINE}" for text in lines[: height - 1]]
    sys.stdout.write(HOME + "\r\n".join(shown) + REST_OF_SCREEN)
    sys.stdout.flush()
