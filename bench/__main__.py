"""Finds the benches, runs them in the order of their names, prints what they found and keeps it in `results/`.

`--check` fails where a headline fell against the committed baseline; `--keep` makes this run the baseline. Both compare
or keep ratios only. `--table FILE` runs nothing: it writes the last run's headlines between the marks in that file.

A bench is a module `bench/<name>.py` with `def run(quick: bool) -> Report` (`bench/measure.py`). One without `run` is a
program of its own: it is started as `python -m bench.<name>`, what it prints is its report, its exit code its claim.
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
from dataclasses import asdict
from pathlib import Path

import bench
from bench._table import RESULTS, latest, put
from bench.headlines import Headline, chart, fallen, keep_baseline, read_baseline
from bench.measure import Report, Row

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


FAILURES = (OSError, EOFError, RuntimeError, AssertionError, TimeoutError, subprocess.SubprocessError)
"""What a bench may meet in the world or find to be untrue; the others go on, and the run fails at its end."""


def attempt(name: str, *, quick: bool) -> Report:
    """Run one bench; one that breaks is a report with a missed claim."""
    try:
        return report_of(name, quick=quick)
    except FAILURES as failure:
        traceback.print_exc()
        report = Report(f"{name} did not come to its end", notes=[f"{type(failure).__name__}: {failure}"])
        report.claim("ran to its end", 0, at_least=1)
        return report


def report_of(name: str, *, quick: bool) -> Report:
    """Run one bench."""
    module = importlib.import_module(f"bench.{name}")
    if hasattr(module, "run"):
        report: Report = module.run(quick)
        return report
    done = subprocess.run([sys.executable, "-m", module.__name__], stdout=subprocess.PIPE, text=True, check=False)
    report = Report(module.__doc__.partition("\n")[0] if module.__doc__ else name, notes=done.stdout.splitlines())
    report.claim("exit code", done.returncode, at_most=0, at_least=0)
    return report


def conclude(headlines: list[Headline], *, check: bool, keep: bool) -> list[str]:
    """Draw the headlines, and those alone; what is worse than it was, where that is asked."""
    for old in RESULTS.parent.glob("*.svg"):
        old.unlink()
    for headline in headlines:
        (RESULTS.parent / f"{headline.slug}.svg").write_text(chart(headline))
    if headlines:
        print("", "headlines", *(f"  {one}" for one in headlines), sep="\n")
    worse = fallen(headlines, read_baseline()) if check else []
    if keep:
        keep_baseline(headlines)
    for sentence in worse:
        print(f"  FELL    {sentence}")
    return worse


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
    if options.keep and options.quick:
        parser.error("a quick run is no baseline: its rounds are too few and some of its sizes are others")
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"no such bench: {', '.join(unknown)}; there are: {', '.join(names())}")
    facts, began = machine(), time.monotonic()
    print("  ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    results: dict[str, object] = {}
    missed = 0
    headlines: list[Headline] = []
    for name in [name for name in names() if name in options.names or not options.names]:
        started = time.monotonic()
        report = attempt(name, quick=options.quick)
        print("", f"{name}  ({time.monotonic() - started:.1f} s)", *lines(report), sep="\n", flush=True)
        results[name] = kept(report)
        missed += sum(not claim.holds for claim in report.claims)
        headlines += report.headlines
    RESULTS.parent.mkdir(exist_ok=True)
    command = " ".join(["python -m bench", *options.names, *(["--quick"] if options.quick else [])])
    kept_run = {"command": command, "machine": facts, "quick": options.quick, "benches": results}
    RESULTS.write_text(json.dumps(kept_run, indent=1) + "\n")
    print("", f"{time.monotonic() - began:.0f} s in all", sep="\n")
    worse = conclude(headlines, check=options.check, keep=options.keep)
    return 1 if missed or worse else 0


if __name__ == "__main__":
    sys.exit(main())
