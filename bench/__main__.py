"""Finds the benches, runs them in the order of their names, prints what they found and keeps it in `results/`.

`--check` fails where a headline fell against the committed baseline; `--keep` makes this run the baseline. Both compare
or keep ratios only. `--table FILE` runs nothing: it writes the last run's headlines between the marks in that file.

Before it begins it waits a while for the machine to calm down; a quick run does not.

A bench is a module `bench/<name>.py` with `def run(quick: bool) -> Report` (`bench/measure.py`). One that breaks does
not stop the others; the run fails at its end, and is no baseline.
"""

import argparse
import importlib
import json
import os
import pkgutil
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import bench
from bench._calm import wait_for_calm
from bench._table import RESULTS, latest, put
from bench.headlines import Found, Headline, chart, fallen, keep_baseline, read_baseline, renewed
from bench.measure import Report, Row
from ostler.pool.errors import PoolError
from ostler.process import ProcessError
from tools.agents.pins import InstallFailed

# `arrivals` writes the committed patterns that `reserve` plays.
NO_BENCH = {"__main__", "measure", "headlines", "arrivals"}


def names() -> list[str]:
    """Every bench there is; a name with an underscore in front is shared code."""
    found = [module.name for module in pkgutil.iter_modules(bench.__path__)]
    return sorted(name for name in found if name not in NO_BENCH and not name.startswith("_"))


def machine() -> dict[str, str]:
    """Without it a number says nothing."""
    info = Path("/proc/cpuinfo")
    models = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor() or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def lines(report: Report) -> list[str]:
    """The report as a table."""
    width = max((len(row.name) for row in report.rows), default=0)
    head = f"  {'':<{width}}  {'median':>10} {'p95':>10} {'spread':>7}    n"
    table = [
        f"  {row.name:<{width}}  {row.median:>10.4g} {row.p95:>10.4g} {row.spread:>7.0%} {len(row.samples):>4}  "
        + row.unit
        for row in report.rows
    ]
    tail = [*report.headlines, *report.claims, *report.notes]
    return [report.title, *([head, *table] if table else ()), *(f"  {line}" for line in tail)]


def kept(report: Report) -> dict[str, object]:
    """The report as data."""

    def figures(row: Row) -> dict[str, object]:
        return {"name": row.name, "unit": row.unit, "median": row.median, "p95": row.p95, "samples": row.samples}

    return {
        "title": report.title,
        "rows": [figures(row) for row in report.rows],
        "claims": [
            {"name": c.name, "value": c.value, "at_most": c.at_most, "at_least": c.at_least, "holds": c.holds}
            for c in report.claims
        ],
        "headlines": [asdict(headline) for headline in report.headlines],
        "notes": report.notes,
    }


FAILURES = (
    *(OSError, EOFError, RuntimeError, AssertionError, TimeoutError, ValueError, LookupError, ExceptionGroup),
    *(subprocess.SubprocessError, PoolError, ProcessError, InstallFailed),
)
"""What a bench may meet in the world or find to be untrue; the others go on, and the run fails at its end."""


def attempt(name: str, *, quick: bool) -> Report:
    """Run one bench; one that breaks is a report with a missed claim."""
    try:
        report: Report = importlib.import_module(f"bench.{name}").run(quick)
    except FAILURES as failure:
        traceback.print_exc()
        notes = [f"{type(failure).__name__}: {failure}"]
        report = Report(f"{name} did not come to its end", notes=notes, whole=False)
        report.claim("ran to its end", 0, at_least=1)
    return report


def conclude(found: Found, *, check: bool) -> list[str]:
    """Draw the headlines, and those alone; what is worse than it was, where that is asked."""
    headlines = [one for several in found.values() for one in several]
    for old in RESULTS.parent.glob("*.svg"):
        old.unlink()
    for headline in headlines:
        (RESULTS.parent / f"{headline.slug}.svg").write_text(chart(headline))
    if headlines:
        print("", "headlines", *(f"  {one}" for one in headlines), sep="\n")
    worse = fallen(found, read_baseline()) if check else []
    for sentence in worse:
        print(f"  FELL    {sentence}")
    return worse


def keep(found: Found, broken: Sequence[str]) -> None:
    """Make this run the baseline, unless a bench broke: later runs would be held to a gap. What is in it no longer is
    said."""
    if broken:
        print(f"  NOT KEPT: {', '.join(broken)} did not come to an end")
        return
    before = read_baseline()
    now = renewed(found, before, names())
    for where, ratios in before.items():
        for name in sorted(ratios.keys() - now.get(where, {}).keys()):
            print(f"  DROPPED {where}, {name}")
    keep_baseline(now)


def main() -> int:
    """0 when every bench ran, every claim holds and, where that is asked, no headline fell."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(names())} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: does it run, roughly how fast")
    parser.add_argument("--check", action="store_true", help="fail where a headline ratio fell against the baseline")
    parser.add_argument("--keep", action="store_true", help="make the headline ratios of this run the baseline")
    parser.add_argument(
        "--table", metavar="FILE", type=Path, help="write the last run's headlines into FILE; run nothing"
    )
    options = parser.parse_args()
    if options.table is not None:
        put(options.table, latest())
        return 0
    if options.quick and (options.keep or options.check):
        parser.error("a quick run is no baseline and is held to none: its rounds are few, some of its sizes are others")
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"no such bench: {', '.join(unknown)}; there are: {', '.join(names())}")
    if not options.quick:
        wait_for_calm(len(os.sched_getaffinity(0)))
    facts, began = machine(), time.monotonic()
    print("  ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    results: dict[str, object] = {}
    missed, broken = list[str](), list[str]()
    found: dict[str, list[Headline]] = {}
    for name in [name for name in names() if name in options.names or not options.names]:
        started = time.monotonic()
        report = attempt(name, quick=options.quick)
        print("", f"{name}  ({time.monotonic() - started:.1f} s)", *lines(report), sep="\n", flush=True)
        results[name] = kept(report)
        broken += [] if report.whole else [name]
        missed += [f"{name}: {claim}" for claim in report.claims if not claim.holds]
        found[name] = report.headlines
    RESULTS.parent.mkdir(exist_ok=True)
    command = " ".join(["python -m bench", *options.names, *(["--quick"] if options.quick else [])])
    kept_run = {"command": command, "machine": facts, "quick": options.quick, "benches": results}
    RESULTS.write_text(json.dumps(kept_run, indent=1) + "\n")
    print("", f"{time.monotonic() - began:.0f} s in all", sep="\n")
    worse = conclude(found, check=options.check)
    if options.keep:
        keep(found, broken)
    print("", *(f"  {one}" for one in missed), f"{len(results)} benches, {len(missed)} claims missed", sep="\n")
    return 1 if missed or worse else 0


if __name__ == "__main__":
    sys.exit(main())
