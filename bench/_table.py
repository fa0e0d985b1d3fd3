"""The headlines of the last run as a table for people, between two marks of a file, so that no figure is typed by hand.

Rules: whatever the table says stands in `results/latest.json`: the figures, the machine, and which command made them. A
run of single benches or a quick one says so.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench._calm import quiet

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
RESULTS = Path(__file__).parent / "results" / "latest.json"


class NoPlace(Exception):
    """A file has no marks, or they are the wrong way round."""


def table(kept: Mapping[str, Any]) -> str:
    """Markdown."""
    machine = kept["machine"]
    found = [one for bench in kept["benches"].values() for one in bench["headlines"]]
    caveat = " A quick run: few rounds, orders of magnitude only." if kept["quick"] else ""
    load, cores = machine["load"].split()[0], int(machine["cores"])
    if float(load) > cores:
        caveat += " The machine was busy with other things: do not judge by this run."
    elif float(load) > quiet(cores):
        caveat += " In the minute before, something else ran."
    about = (
        f"`{kept['command']}` on {machine['cores']} cores of {machine['cpu']}, {machine['kernel']}, "
        f"{machine['python']}, load {load} at the start.{caveat}"
    )
    lines = [about, "", "| | ostler | beside it | ratio |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(line, found)])


def line(one: Mapping[str, Any]) -> str:
    """One headline; ratios are how many times better ours is, the last one round by round and with its spread."""
    (label, ours), *others = one["bars"]
    beside = " · ".join(f"{name} {number(value)} ({better(ours, value, more=one['more'])} ×)" for name, value in others)
    spread = " (one round)" if one["spread"] is None else f" ±{one['spread']:.0%}"
    ratio = f"{number(one['ratio'])} × {one['against']}{spread}"
    return f"| {one['name']} ({one['unit']}) | {label} **{number(ours)}** | {beside} | {ratio} |"


def better(ours: float, theirs: float, *, more: bool) -> str:
    """How many times."""
    return number(ours / theirs if more else theirs / ours)


def number(value: float) -> str:
    """Three figures that count."""
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:#.3g}".rstrip(".")


def put(file: Path, kept: Mapping[str, Any]) -> None:
    """Write the table between the marks of a file."""
    before, begin, rest = file.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoPlace(f"{file} has no {BEGIN} ... {END}")
    file.write_text(f"{before}{BEGIN}\n{table(kept)}\n{END}{after}")


def latest() -> dict[str, Any]:
    """The last run."""
    kept: dict[str, Any] = json.loads(RESULTS.read_text())
    return kept
