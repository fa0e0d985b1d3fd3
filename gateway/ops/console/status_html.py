"""Renders the status page: the state of `StatusView` as tables and bars.

Rules: every text goes through `escape`. Bars are SVG with their numbers as a label, and meters are `<meter>`, so that a
screen reader can read what is shown. Ids are stable, because the live page is updated in place by id. No inline style:
the page's policy forbids it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from ostler.gateway.ops.console.amounts import counted_memory, duration, megabytes, milliseconds
from ostler.gateway.ops.console.console_text import all_measured, whom, why_failed
from ostler.gateway.ops.console.turns import PHASES
from ostler.wire.json import JsonObject

FULL_BAR = 512 << 20
"""The memory that fills a bar if there is no memory budget."""
ASKS = {"drain", "recycle", "kill"}
SAID = {"kill": "Ends every turn on it at once.", "drain": "Sessions move to new processes at the end of their turns.",
        "recycle": "A new process starts first; sessions move at the end of their turns."}  # fmt: skip


def status_body(state: JsonObject, token: str, notice: str, *, signed_in: bool) -> str:
    """The whole body; its `#live` part is replaced by updates."""
    out = '<form method="post" action="/logout"><button>Sign out</button></form>' if signed_in else ""
    said = f'<p class="notice">{escape(notice)}</p>' if notice else ""
    return (
        '<a class="skip" href="#main">To the content</a>'
        f'<header><h1>ostler</h1><nav aria-label="Pages"><a href="/" aria-current="page">Status</a>'
        f'<a href="/chat">Chat</a><a href="/docs">API</a></nav>{out}</header>'
        f'<main id="main" data-token="{escape(token)}"><div id="said" role="status" aria-live="polite">{said}</div>'
        f'<div id="live">{live(state, token)}</div></main>'
        '<footer><p id="link" role="status">Shown as of this moment; reload for another look.</p></footer>'
    )


def live(state: JsonObject, token: str) -> str:
    """The part of the page that changes."""
    keys = "".join(key_section(key, token, state["census"]) for key in state["keys"])
    return (
        summary(state, token)
        + failures(state)
        + f'<section aria-labelledby="h-keys"><h2 id="h-keys">Processes by key</h2>{keys or NOTHING_YET}</section>'
        + timeline(state["turns"])
    )


NOTHING_YET = "<p>No process runs, and no key is kept. The next turn starts one.</p>"


def summary(state: JsonObject, token: str) -> str:
    """The pool in numbers."""
    census, first = state["census"], state["first_turns"]
    budget = census["memory_budget"]
    counted = counted_memory(census["memory"], measured=all_measured(state))
    memory = f"{counted} of {megabytes(budget)}" if budget else counted
    tiles = [
        ("Processes", f"{census['processes']} of {census['max_processes']}"),
        ("Seats leased", census["leased"]),
        ("Seats parked", census["parked"]),
        ("Claims waiting", census["waiting"]),
        ("Running turns", state["running_turns"]),
        ("Memory", memory),
        ("Served at once", f"{first['at_once']} of {first['all']} new sessions" if first["all"] else "no sessions yet"),
        ("Up for", duration(state["uptime"])),
    ]
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(str(value))}</dd></div>" for name, value in tiles)
    verb = "resume" if state["paused"] else "pause"
    return (
        '<section aria-labelledby="h-pool"><h2 id="h-pool">Pool '
        f'<span class="badge {condition(state)[0]}">{condition(state)[1]}</span></h2><dl class="tiles">{cells}</dl>'
        f'{problems(state)}<div class="acts">{act(verb, {}, token, "the whole pool")}</div></section>'
    )


def problems(state: JsonObject) -> str:
    """Why the gateway is not ready."""
    return "".join(f'<p class="notice bad">{escape(problem)}</p>' for problem in state["problems"])


def condition(state: JsonObject) -> tuple[str, str]:
    """(CSS class, word) for the state of the gateway."""
    if state["draining"]:
        return "warn", "draining"
    if not state["ready"]:
        return "bad", "not ready"
    if state["paused"]:
        return "warn", "paused"
    return ("good", "ready") if state["enabled"] else ("warn", "off: one process per session")


def key_section(key: JsonObject, token: str, census: JsonObject) -> str:
    """The section of a key with its processes."""
    mark = ident("key", key["key"], key["own_process"], key["owner"])
    facts = [
        f"{key['parked']} parked for a target of {key['target']}",
        f"{key['leased']} leased",
        f"{key['arrivals_per_minute']:g} claims a minute",
        *([f"{key['waiting']} waiting"] if key["waiting"] else []),
        *([f"{key['start_failures']} starts failed, next try in {key['retry_in']:g} s"] if key["retry_in"] else []),
    ]
    tags = '<span class="badge warn">paused</span>' if key["paused"] else ""
    tags += '<span class="badge">own process</span>' if key["own_process"] else ""
    if key["owner"] is not None:
        tags += f'<span class="badge">of {escape(key["owner"] or "no owner")}</span>'
    named = {"key": key["name"], "cwd": key["cwd"]}
    verbs = ("warm", "resume" if key["paused"] else "pause", "drain")
    acts = "" if key["own_process"] else "".join(act(verb, named, token, key["key"]) for verb in verbs)
    return (
        f'<article id="{mark}" aria-labelledby="{mark}-h"><h3 id="{mark}-h">{escape(key["name"])} {tags}</h3>'
        f'<p class="cwd">{escape(key["cwd"])}</p><p>{escape(", ".join(facts))}</p>'
        f"{processes(key, token, census, mark)}<div class='acts'>{acts}</div></article>"
    )


def processes(key: JsonObject, token: str, census: JsonObject, mark: str) -> str:
    """The table of a key's processes."""
    if not key["processes"]:
        return "<p>No process now.</p>"
    most = census["memory_budget"] or max(FULL_BAR, *(one["memory_charged"] for one in key["processes"]))
    rows = [process_row(one, token, most, mark) for one in key["processes"]]
    heads = ("Process", "State", "Seats", "Served", "Age", "Memory", "Actions")
    return table(heads, rows, f"Processes of {key['key']}")


def process_row(one: JsonObject, token: str, most: int, mark: str) -> str:
    """The table row of a process."""
    number = one["process"]
    state = one["state"] + (f" ({one['retired_for']})" if one["retired_for"] else "")
    free = max(0, one["capacity"] - one["leased"] - one["parked"] - one["opening"])
    seats = {"leased": one["leased"], "parked": one["parked"], "opening": one["opening"], "free": free}
    shown = {name: count for name, count in seats.items() if count and name != "free"}
    counted = ", ".join(f"{count} {name}" for name, count in shown.items()) or "none"
    memory = (
        f'<meter min="0" max="{most}" value="{min(one["memory"], most)}" aria-label="memory of process {number}">'
        f"</meter> {megabytes(one['memory'])}"
        if one["memory"]
        else "not measured yet"
    )
    acts = "".join(act(verb, {"process": str(number)}, token, f"process {number}") for verb in ("recycle", "kill"))
    cells = [
        ("Process", f"#{number} <small>pid {one['pid'] or '-'}</small>"),
        ("State", f'<span class="badge {one["state"]}">{escape(state)}</span>'),
        ("Seats", f"{bar(seats, 'seats')} {escape(counted)}"),
        ("Served", f"{one['served']}" + (f", {one['leaked']} leaked" if one["leaked"] else "")),
        ("Age", duration(one["age"])),
        ("Memory", memory),
        ("Actions", f'<div class="acts">{acts}</div>'),
    ]
    return row(f"{mark}-{number}", cells)


def timeline(turns: Sequence[JsonObject]) -> str:
    """The last turns, each with the durations of its phases."""
    longest = max([turn["ms"]["total"] for turn in turns], default=0.0) or 1.0
    legend = "".join(f'<li><span class="swatch {phase}"></span>{words(phase)}</li>' for phase in PHASES)
    rows = []
    for turn in turns:
        phases = {phase: turn["ms"][phase] for phase in PHASES}
        cells = [
            ("When", clock_time(turn["at"])),
            ("Model", escape(f"{turn['provider']}/{turn['model']}")),
            ("Seat", f'<span class="badge {escape(turn["warmth"])}">{escape(turn["warmth"])}</span>'
                     f'{" <small>own process</small>" if turn["transport"] == "agent" else ""}'),
            ("Where the time went", bar(phases, "phases", longest, unit=" ms")),
            ("Total", milliseconds(turn["ms"]["total"])),
            ("End", f'<span class="badge {escape(turn["status"])}">{escape(turn["status"])}</span>{reason(turn)}'),
        ]  # fmt: skip
        rows.append(row(f"turn-{escape(turn['turn'])}", cells))
    heads = ("When", "Model", "Seat", "Where the time went", "Total", "End")
    shown = table(heads, rows, "The last turns") if rows else "<p>No turn yet.</p>"
    return (
        '<section aria-labelledby="h-turns"><h2 id="h-turns">Last turns</h2>'
        f'<ul class="legend" aria-label="Phases">{legend}</ul>{shown}</section>'
    )


def reason(turn: JsonObject) -> str:
    """The reason why the turn ended so, if there is one."""
    return f" <small>{escape(turn['reason'])}</small>" if turn["reason"] else ""


def failures(state: JsonObject) -> str:
    """The failures of keys, with the agents' last lines of stderr, and the failed turns."""
    items = [
        failure(fault["key"], f"{fault['kind']}, {duration(fault['age'])} ago", fault["text"], fault["stderr"])
        for fault in state["failures"]
    ]
    items += [
        failure(
            f"{turn['provider']}/{turn['model']}, {whom(turn)}",
            f"turn at {clock_time(turn['at'])}",
            ": ".join(why_failed(turn)),
            [],
        )
        for turn in state["failed_turns"]
    ]
    listed = f'<ul class="failures">{"".join(items)}</ul>' if items else "<p>Nothing failed.</p>"
    return f'<section aria-labelledby="h-bad"><h2 id="h-bad">Recent failures</h2>{listed}</section>'


def failure(where: str, kind: str, text: str, stderr: Sequence[str]) -> str:
    """A list item for one failure."""
    tail = ""
    if stderr:
        lines = escape("\n".join(stderr))
        tail = f'<details><summary>Last lines of stderr</summary><pre tabindex="0">{lines}</pre></details>'
    return f"<li><strong>{escape(kind)}</strong> {escape(where)}<p>{escape(text)}</p>{tail}</li>"


# --- small things ---


def act(verb: str, fields: Mapping[str, str], token: str, what: str) -> str:
    """A button that sends an order; destructive verbs ask for confirmation first."""
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{escape(value)}">'
        for name, value in {"token": token, "verb": verb, **fields}.items()
    )
    label = f'{verb.capitalize()}<span class="unseen"> {escape(what)}</span>'
    form = f'<form method="post" action="/act" class="act">{hidden}'
    if verb not in ASKS:
        return f"{form}<button>{label}</button></form>"
    sure = f'<button class="sure">Yes, {verb}<span class="unseen"> {escape(what)}</span></button>'
    return f"<details class='ask'><summary>{label}…</summary>{form}<p>{SAID[verb]}</p>{sure}</form></details>"


def table(heads: Iterable[str], rows: Iterable[str], caption: str) -> str:
    """A table with explicit ARIA roles: on narrow screens its rows become cards, and `display: block` would drop the
    roles."""
    columns = "".join(f'<th role="columnheader" scope="col">{escape(head)}</th>' for head in heads)
    return (
        f'<table role="table"><caption class="unseen">{escape(caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row">{columns}</tr></thead>'
        f'<tbody role="rowgroup">{"".join(rows)}</tbody></table>'
    )


def row(mark: str, cells: Iterable[tuple[str, str]]) -> str:
    """A row of cells, each with its column's heading for the card layout."""
    inner = "".join(f'<td role="cell" data-label="{escape(head)}"><div>{cell}</div></td>' for head, cell in cells)
    return f'<tr role="row" id="{escape(mark)}">{inner}</tr>'


def bar(parts: Mapping[str, float], kind: str, whole: float | None = None, unit: str = "") -> str:
    """A stacked bar; the whole is 100 units wide."""
    full = whole or sum(parts.values()) or 1.0
    at, rects = 0.0, []
    for name, size in parts.items():
        width = 100.0 * size / full
        rects.append(f'<rect class="{name}" x="{at:.2f}" y="0" width="{width:.2f}" height="10"></rect>')
        at += width
    label = ", ".join(f"{words(name)} {size:g}{unit}" for name, size in parts.items() if size) or "nothing"
    return (
        f'<svg class="bar {kind}" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><title>{escape(label)}</title>{"".join(rects)}</svg>'
    )


def ident(*parts: Any) -> str:
    """A stable HTML id made of texts."""
    return "-".join("".join(char if char.isalnum() else "_" for char in str(part)) for part in parts)


def words(name: str) -> str:
    """The name with spaces instead of underscores."""
    return name.replace("_", " ")


def clock_time(at: float) -> str:
    """The time of day in the gateway's time zone."""
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
