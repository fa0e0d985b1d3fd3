"""`make agents`: the contract suite against the real agent CLIs, offline, in one command.

    python -m tools.agents [PROVIDER...] [-k EXPRESSION] [-x] [--jobs N]

1. Installs what is missing into the cache (a warm run installs nothing).
2. Enters a network namespace with loopback only, where the system allows it; says so where it does not.
3. Starts the fake model server and runs `tests/contracts` once for each agent.
4. Prints a table for each agent and one closing line. Any failed check, or an agent of `REQUIRED` that did not run,
   makes the exit code 1; another agent may be missing, with its reason, only when its install failed.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import psutil

from tools.agents.offline import raise_loopback, way_in
from tools.agents.pins import PINS, InstallFailed, Pin, cache_folder, install
from tools.agents.suite import ROOT, Outcome, Verdict, fake_llm, run_suite

REQUIRED = {"gemini-acp", "codex-app-server"}
INSTALLS_AT_ONCE = 3


def say(text: str) -> None:
    print(text, flush=True)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.agents", description="The contract suite on real agents.")
    names = [pin.provider for pin in PINS]
    parser.add_argument("providers", nargs="*", metavar="PROVIDER", help=f"all by default: {', '.join(names)}")
    parser.add_argument("-k", dest="chosen", metavar="EXPRESSION", help="only the checks that match, as pytest has it")
    parser.add_argument("-x", dest="first", action="store_true", help="end an agent's run at its first failure")
    parser.add_argument("--jobs", type=int, default=2, help="agents tested at once (2)")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if unknown := sorted(set(given.providers) - set(names)):
        parser.error(f"no such agent: {', '.join(unknown)}; there are {', '.join(names)}")
    return given


def install_all(pins: Sequence[Pin]) -> tuple[dict[str, str], dict[str, str]]:
    """Where each agent is, and why others are not."""
    homes, reasons = {}, {}

    def one(pin: Pin) -> None:
        try:
            homes[pin.provider] = str(install(pin, cache_folder(), say))
        except InstallFailed as failure:
            reasons[pin.provider] = str(failure)
            say(f"could not install {pin.provider} {pin.version}: {failure}")

    with ThreadPoolExecutor(INSTALLS_AT_ONCE) as threads:
        list(threads.map(one, pins))
    return homes, reasons


def run_all(homes: Mapping[str, str], jobs: int, extra: Sequence[str]) -> list[Verdict]:
    """Every agent's suite, some at once."""
    folder = Path(tempfile.mkdtemp(prefix="ostler-agents-"))
    verdicts: list[Verdict] = []
    with fake_llm(folder) as llm, ThreadPoolExecutor(jobs) as threads:

        def one(provider: str) -> None:
            verdict = run_suite(provider, Path(homes[provider]), llm, folder, extra)
            verdicts.append(verdict)
            say(table(verdict))

        list(threads.map(one, homes))
    if all(verdict.ok for verdict in verdicts):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"kept for a look: {folder}")
    return verdicts


def table(verdict: Verdict) -> str:
    """What became of each check of one agent, and where the failed ones failed."""
    rows = [f"  {one.check:<72} {one.outcome:<8} {one.ms:>7} ms{short(one)}" for one in verdict.outcomes]
    details = [f"\n  {one.check}:\n{one.why}" for one in verdict.outcomes if one.outcome == "failed"]
    if not verdict.ok and not details:
        details = [verdict.output]
    head = f"{verdict.provider}: {counted(verdict.counts) or 'nothing ran'} in {verdict.seconds:.1f} s"
    return "\n".join(["", head, *rows, *details])


def short(outcome: Outcome) -> str:
    return f"  {outcome.why}" if outcome.outcome == "skipped" else ""


def counted(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("failed", "passed", "skipped") if counts[outcome])


def end_with_children(*_: object) -> None:
    """Asked to end: the suites are ended first, and their keepers see to the agents."""
    for child in psutil.Process().children():
        child.terminate()
    raise SystemExit(128 + signal.SIGTERM)


def inside(plan: str) -> int:
    """The second half of the run, in a network of its own or not."""
    signal.signal(signal.SIGTERM, end_with_children)
    given = json.loads(plan)
    began = time.monotonic()
    if given["alone"]:
        raise_loopback()
    verdicts = run_all(given["homes"], given["jobs"], given["extra"])
    total = sum((verdict.counts for verdict in verdicts), Counter[str]())
    missing = [f"{name} ({why})" for name, why in given["reasons"].items()]
    bad = [verdict.provider for verdict in verdicts if not verdict.ok] + sorted(REQUIRED & set(given["reasons"]))
    if missing:
        say(f"\nnot run: {'; '.join(missing)}")
    spent = f"{counted(total) or 'nothing ran'} on {len(verdicts)} agents in {time.monotonic() - began:.0f} s"
    say(f"\n=== {spent}{'; not good: ' if bad else ''}{', '.join(bad)} ===")
    return 1 if bad or not verdicts else 0


def go_on_as(argv: Sequence[str]) -> NoReturn:
    """In our place, not beside us: whoever ends this command ends the run."""
    os.chdir(ROOT)
    os.execvp(argv[0], [*argv])


def main(argv: Sequence[str] | None = None) -> int:
    given = parse(argv)
    if given.inside:
        return inside(given.inside)
    pins = [pin for pin in PINS if not given.providers or pin.provider in given.providers]
    homes, reasons = install_all(pins)
    ordered = {pin.provider: homes[pin.provider] for pin in pins if pin.provider in homes}
    way = way_in()
    if way is None:
        say("notice: no network namespace is allowed here; the agents run with the network of this machine")
    extra = [*(["-k", given.chosen] if given.chosen else []), *(["-x"] if given.first else [])]
    plan = {"homes": ordered, "reasons": reasons, "jobs": given.jobs, "extra": extra, "alone": way is not None}
    again = [sys.executable, "-m", "tools.agents", "--inside", json.dumps(plan)]
    go_on_as([*(way or ()), *again])


if __name__ == "__main__":
    sys.exit(main())
