"""`ostler chat`: talk to an agent in the terminal. If no gateway runs, this command starts one of its own.

Exit codes: 0 the last answer was good, 1 it failed or no gateway could be reached, 2 wrong usage, 130 cancelled.
"""

import argparse
import os

SUMMARY = "talk to an agent in the terminal"
ABOUT = """Every start is a new conversation; --resume goes back to an earlier one. Enter sends, Alt-Enter begins a new
line, Ctrl-C cancels what the agent is doing, Ctrl-D ends. /help lists the commands. Without a terminal the message is
read from standard input, and nothing but the answer is written to standard output."""
LATEST = "1"


def address(text: str) -> str:
    """Check the form of a gateway's address, for argparse."""
    scheme, _, rest = text.partition(":")
    if rest.strip("/") and (scheme == "unix" or (scheme in ("http", "https") and rest.startswith("//"))):
        return text
    raise argparse.ArgumentTypeError(f"use http://host:port or unix:/path, not {text!r}")


def arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; exits on errors."""
    parser = argparse.ArgumentParser(prog="ostler chat", description=ABOUT)
    parser.add_argument("--once", metavar="TEXT", help="say this, print the answer, end ('-' reads standard input)")
    parser.add_argument("--lines", action="store_true", help="take each line of standard input as a message")
    parser.add_argument(
        "--resume", metavar="WHAT", nargs="?", const="", help="title or id; alone: the last conversation"
    )
    parser.add_argument("--model", help="who answers")
    parser.add_argument("--cwd", metavar="DIR", help="where the agent works")
    parser.add_argument("--key", help="the session key of the conversation, instead of one of its own")
    parser.add_argument(
        "--url", type=address, help="the gateway (http://host:port or unix:/path), instead of looking for one"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where everything is kept (OSTLER_DATA_DIR, else XDG state)")
    parser.add_argument("--config", metavar="FILE", help="configuration (OSTLER_CONFIG, else ./ostler.toml)")
    return parser.parse_args(argv)


def run(argv: list[str]) -> int:
    """Run the chat; return the exit code."""
    given = arguments(argv)

    import asyncio  # noqa: PLC0415 - `ostler chat --help` needs none of this

    from ostler.gateway.cli.terminal.chat_main import ChatOptions, run_chat  # noqa: PLC0415 - see above
    from ostler.gateway.interrupts import raised  # noqa: PLC0415 - see above

    options = ChatOptions(
        given.once,
        given.lines,
        given.resume,
        given.model,
        given.cwd,
        given.key,
        given.url,
        given.data_dir,
                    given.config)  # fmt: skip
    with raised():
        return asyncio.run(run_chat(options, os.environ))
