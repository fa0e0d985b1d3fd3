"""The command line of the demo agent: where it keeps its state, and the faults that it shows from the start.

Rules of this file: pure. Parsed by hand, because argparse alone costs as much as the interpreter.
"""

from __future__ import annotations

SWITCHES = {
    "refuse-initialize": "answer initialize with an error",
    "refuse-close": "answer session/close with an error",
    "no-close": "neither advertise nor know session/close",
    "no-load": "neither advertise nor know session/load and session/resume",
    "share-tools": "let the first tool server of a name answer for every session, unnamed",
    "ignore-eof": "stay alive when stdin ends",
    "ignore-term": "ignore SIGTERM",
    "mcp-http": "take tool servers over HTTP too",
    "mcp-acp": "take tool servers over our own stdin and stdout too (MCP over ACP)",
    "no-list-changed": "do not follow notifications/tools/list_changed",
}
VALUES = {
    "boot-delay": "SECONDS  wait before reading anything",
    "delay-initialize": "SECONDS  wait before answering initialize",
    "slow-session-new": "SECONDS  wait before answering session/new",
    "exit-after": "N  exit with code 1 when a session after the Nth is asked for",
    "fail-first-starts": "N  exit with code 1 on the first N starts, counted in --fail-state",
    "fail-state": "FILE  where starts are counted",
    "claim-session": "ID  state this session with every tool call, and not the one that calls",
    "call-timeout": "SECONDS  how long a tool may take (600)",
    "state-dir": "DIR  where conversations are kept for session/load",
    "record": "FILE  append every frame and tool list to FILE as JSON lines (holds secrets; mode 0600)",
}


class UsageError(ValueError):
    """The command line cannot be understood."""


class Flags:
    """A parsed command line. Raises `UsageError`."""

    def __init__(self, argv: list[str]) -> None:
        given = _scan(argv)
        self.refuse_initialize = "refuse-initialize" in given
        self.refuse_close = "refuse-close" in given
        self.no_close = "no-close" in given
        self.no_load = "no-load" in given
        self.share_tools = "share-tools" in given
        self.ignore_eof = "ignore-eof" in given
        self.ignore_term = "ignore-term" in given
        self.mcp_http = "mcp-http" in given
        self.mcp_acp = "mcp-acp" in given
        self.no_list_changed = "no-list-changed" in given
        self.boot_delay = _seconds(given, "boot-delay", 0)
        self.delay_initialize = _seconds(given, "delay-initialize", 0)
        self.slow_session_new = _seconds(given, "slow-session-new", 0)
        self.call_timeout = _seconds(given, "call-timeout", 600)
        self.exit_after = _count(given, "exit-after")
        self.fail_first_starts = _count(given, "fail-first-starts") or 0
        self.claim_session = given.get("claim-session")
        self.fail_state = given.get("fail-state")
        self.state_dir = given.get("state-dir")
        self.record = given.get("record")
        if self.fail_first_starts and not self.fail_state:
            raise UsageError("--fail-first-starts needs --fail-state FILE to count the starts in")


def usage() -> str:
    """Return the help text."""
    rows = [(f"--{name}", text) for name, text in SWITCHES.items()]
    for name, text in VALUES.items():
        unit, _, meaning = text.partition("  ")
        rows.append((f"--{name} {unit}", meaning))
    width = max(len(flag) for flag, _ in rows)
    return "\n".join(
        [
            "usage: ostler agent demo [flags]",
            "",
            "An ACP agent on stdin and stdout that needs no model and no network.",
            "",
            *(f"  {flag:<{width}}  {text}" for flag, text in rows),
        ]
    )


def _scan(argv: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        name, joined, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in SWITCHES and not joined:
            given[name] = ""
        elif word.startswith("--") and name in VALUES:
            if not joined and not rest:
                raise UsageError(f"--{name} needs a value")
            given[name] = value if joined else rest.pop(0)
        else:
            raise UsageError(f"unknown flag {word!r}")
    return given


def _seconds(given: dict[str, str], name: str, default: float) -> float:
    if name not in given:
        return default
    try:
        seconds = float(given[name])
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= 86_400:
        raise UsageError(f"--{name} wants seconds between 0 and 86400, got {given[name]!r}")
    return seconds


def _count(given: dict[str, str], name: str) -> int | None:
    if name not in given:
        return None
    if not given[name].isdecimal():
        raise UsageError(f"--{name} wants a whole number, got {given[name]!r}")
    return int(given[name])
