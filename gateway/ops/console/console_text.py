"""Renders the console's tables and sentences as plain text. Values in, lines out.

Rules: a column is as wide as its widest cell; lines are cut to the screen only if there is a screen. The words are
those of the status page and of the JSON.
"""

from collections.abc import Sequence
from textwrap import wrap
from time import localtime, strftime

from ostler.gateway.ops.console.amounts import counted_memory, duration, megabytes, milliseconds
from ostler.wire.json import JsonObject

PROCESS_HEADS = ("#", "PID", "STATE", "LEASED", "PARKED", "SERVED", "AGE", "MEMORY")
TURN_HEADS = ("WHEN", "MODEL", "SEAT", "SPAWN", "SESSION", "TOOL", "ANSWER", "TOTAL", "END")
FAILED = 5
"""Number of failed turns that are listed."""
CLAIM_HEADS = ("AGO", "ANSWER", "SEAT", "MISS", "WAITED", "QUEUE", "SPAWN", "SESSION")
BECAUSE = {
    "quiet": "nobody asks often enough for a seat to be kept, and no floor is set",
    "steady": "{expected:.2g} claims are expected while a seat is refilled ({refill_seconds:.2g} s), and {steady} "
    "seats make a miss rare",
    "burst": "{burst} came at once before, and may be coming again",
    "floor": "an operator or the configuration wants at least {floor}",
    "most": "more was wanted than the rule allows ({most})",
}
HOLDS = {
    "pool_paused": "the whole pool is paused (`ostler pool resume`)",
    "key_paused": "the key is paused (`ostler pool resume KEY`)",
    "backoff": "its last start failed; the next try is in {retry_in:.1f} s (`ostler pool reconnect KEY` tries now)",
    "key_cap": "the key has as many processes as it may ({process_cap})",
    "pool_cap": "the pool has as many processes as it may",
    "memory": "another process would exceed the memory budget",
    "starting": "enough processes are starting already",
    "provider_starting": "enough processes of its provider are starting already",
    "first_start": "the first process on its HOME is coming up, which its provider starts alone",
    "first_answer": "somebody waits for a first answer: what nobody waits for starts after it",
}


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out the rows in aligned columns."""
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (heads, *rows)
    ]


def state_lines(state: JsonObject, turns: int = 0) -> list[str]:
    """The state of the pool, key by key. `turns` is how many of the last turns to list."""
    lines = [headline(state), *(f"not ready: {problem}" for problem in state["problems"])]
    for key in state["keys"]:
        lines += ["", *key_lines(key)]
    if not state["keys"]:
        lines += ["", "no process runs, and no key is kept"]
    if state["spares"]:
        lines += ["", "spares", *indented(table(PROCESS_HEADS, [process_cells(one) for one in state["spares"]]))]
    for fault in state["failures"]:
        lines += ["", f"last failure of {fault['key']}, {duration(fault['age'])} ago: {fault['text']}"]
    if state["failed_turns"]:
        lines += [
            "",
            "turns that failed or were cut short:",
            *(f"  {failed_line(turn)}" for turn in state["failed_turns"][:FAILED]),
        ]
    if turns and state["turns"]:
        lines += ["", *table(TURN_HEADS, [turn_cells(turn) for turn in state["turns"][:turns]])]
    return lines


def failed_line(turn: JsonObject) -> str:
    """One failed turn: time, model, session and reason."""
    when = strftime("%H:%M:%S", localtime(turn["at"]))
    return f"{when} {turn['provider']}/{turn['model']}, {whom(turn)}: {', '.join(why_failed(turn))}"


def whom(turn: JsonObject) -> str:
    """The session, with its owner if it has one."""
    return f"session {turn['session']}" + (f" of {turn['owner']}" if turn["owner"] else "")


def why_failed(turn: JsonObject) -> list[str]:
    """The reason as a code and as a sentence, as far as they are known."""
    return [part for part in (f"{turn['status']} ({turn['reason']})", turn["error"]) if part]


def headline(state: JsonObject) -> str:
    """The state of the whole pool in one line."""
    census = state["census"]
    budget = f" of {megabytes(census['memory_budget'])}" if census["memory_budget"] else ""
    memory = counted_memory(census["memory"], measured=all_measured(state))
    return (
        f"{condition(state)}: {census['processes']} of {census['max_processes']} processes, {census['leased']} seats "
        f"leased, {census['parked']} parked, {census['waiting']} claims waiting, "
        f"{state['running_turns']} turns running, {memory}{budget}, up {duration(state['uptime'])}"
    )


def all_measured(state: JsonObject) -> bool:
    """Whether the memory of every process has been measured."""
    processes = [*state["spares"], *(one for key in state["keys"] for one in key["processes"])]
    return all(one["memory"] for one in processes)


def condition(state: JsonObject) -> str:
    """One word for the state of the gateway."""
    if state["draining"]:
        return "draining"
    if not state["ready"]:
        return "NOT READY"
    if state["paused"]:
        return "paused"
    return "ready" if state["enabled"] else "ready, pool off"


def key_lines(key: JsonObject) -> list[str]:
    """A key and its processes."""
    marks = [
        *(["paused"] if key["paused"] else []),
        *(["own process"] if key["own_process"] else []),
        *([f"of {key['owner'] or 'no owner'}"] if key["owner"] is not None else []),
        *([f"{key['waiting']} waiting"] if key["waiting"] else []),
        *([f"{key['start_failures']} failed starts, next in {key['retry_in']:g} s"] if key["retry_in"] else []),
    ]
    mark = f"  [{', '.join(marks)}]" if marks else ""
    floor = f" (floor {key['floor']})" if key["floor"] else ""
    first = (
        f"{key['key']}{mark}  parked {key['parked']} of {key['target']}{floor}, {key['leased']} leased, "
        f"{key['arrivals_per_minute']:g} claims a minute"
    )
    rows = [process_cells(one) for one in key["processes"]]
    return [first, *indented(table(PROCESS_HEADS, rows) if rows else ["no process"])]


def process_cells(one: JsonObject) -> list[str]:
    """The cells of a process, in the order of `PROCESS_HEADS`."""
    state = one["state"] + (f" ({one['retired_for']})" if one["retired_for"] else "")
    return [
        str(one["process"]),
        str(one["pid"] or "-"),
        state,
        str(one["leased"]),
        f"{one['parked']}" + (f"+{one['opening']}" if one["opening"] else ""),
        f"{one['served']}" + (f" ({one['leaked']} leaked)" if one["leaked"] else ""),
        duration(one["age"]),
        megabytes(one["memory"]) if one["memory"] else "-",
    ]


def turn_cells(turn: JsonObject) -> list[str]:
    """The cells of a turn, in the order of `TURN_HEADS`."""
    phases = turn["ms"]
    names = ("spawn", "session_new", "first_tool", "generation", "total")
    spent = [milliseconds(phases[name]) for name in names]
    model = f"{turn['provider']}/{turn['model']}"
    return [strftime("%H:%M:%S", localtime(turn["at"])), model, turn["warmth"], *spent, turn["status"]]


def why_lines(why: JsonObject) -> list[str]:
    """Explain why a key has as many warm seats as it has."""
    reasons = why["reasons"]
    lines = [why["key"]]
    if not why["enabled"]:
        lines += ["  the pool is off: each session has a process of its own, and nothing is kept ready"]
    if why["trouble"]:
        lines += wrap(f"it cannot be started: {why['trouble']}", 100, initial_indent="  ", subsequent_indent="    ")
    if reasons is None:
        lines += ["  the pool holds nothing of it now: no claim of it was served lately, and no floor is set"]
    else:
        lines += reason_lines(reasons)
    lines += ["", f"the last {len(why['claims'])} claims:" if why["claims"] else "no claim is remembered"]
    if why["claims"]:
        lines += indented(table(CLAIM_HEADS, [claim_cells(one) for one in why["claims"]]))
    return lines


def reason_lines(reasons: JsonObject) -> list[str]:
    """The targets of a key, and what holds back new processes."""
    lines = [
        f"  processes: {reasons['processes']}, wanted {reasons['processes_wanted']}, at most "
        f"{reasons['process_cap']}; {reasons['waiting']} claims wait"
    ]
    for line in reasons["lines"]:
        tools = "without tools" if not line["tools"] else f"tools {line['tools'][:12]}"
        lines += [
            f"  seats {tools}: {line['parked']} parked, {line['opening']} opening, target {line['target']}",
            *wrap(
                f"because {BECAUSE[line['because']].format(**line)}",
                100,
                initial_indent="    ",
                subsequent_indent="    ",
            ),
            f"    {line['arrivals_per_minute']:.2g} claims a minute; a new seat takes {line['refill_seconds']:.2g} s;"
            f" floor {line['floor']}, for steady traffic {line['steady']}, for a burst {line['burst']}",
        ]
    if not reasons["lines"]:
        lines.append("  no seat was asked for yet")
    lines += [f"  held back: {HOLDS[hold].format(**reasons)}" for hold in reasons["holds"]]
    if reasons["last_failure"]:
        lines += wrap(
            f"last start failure: {reasons['last_failure']}", 100, initial_indent="  ", subsequent_indent="    "
        )
    return lines


def claim_cells(one: JsonObject) -> list[str]:
    """The cells of a claim, in the order of `CLAIM_HEADS`."""
    spent = [milliseconds(one[name] * 1000) for name in ("waited", "queue", "spawn", "session_new")]
    seat = one["warmth"] + (" (own process)" if one["own_process"] else "")
    return [duration(one["ago"]), one["answer"], seat or "-", one["miss"] or "-", *spent]


def indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
