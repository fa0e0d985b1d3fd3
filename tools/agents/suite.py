"""Runs the contract suite, one pytest process for each agent, and reads what became of each check."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

BOUND = 600.0
"""Seconds for one agent. A suite that hangs is killed and fails; the whole of CI has 20 minutes."""
LLM_LOG = "llm.jsonl"
"""What the model was asked, in the folder of a run."""
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One check of one agent."""

    check: str
    outcome: str
    ms: int
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One agent's run."""

    provider: str
    code: int
    seconds: float
    output: str
    outcomes: Sequence[Outcome] = field(default=())

    @property
    def counts(self) -> Counter[str]:
        return Counter(outcome.outcome for outcome in self.outcomes)

    @property
    def ok(self) -> bool:
        """Something ran, and nothing failed."""
        return self.code == 0 and self.counts["passed"] > 0


def run_suite(provider: str, install: Path, llm: str, folder: Path, extra: Sequence[str]) -> Verdict:
    """The whole contract suite against one agent."""
    report = folder / f"{provider}.jsonl"
    home = folder / f"home-{provider}"
    home.mkdir(parents=True)
    pytest = [sys.executable, "-m", "pytest", "tests/contracts", "-p", "tools.agents.plugin", "-m", "agents", "-q"]
    chosen = ["--agent", provider, "--agent-install", str(install), "--agent-llm", llm, "--agent-home", str(home)]
    chosen += ["--agent-log", str(folder / LLM_LOG)]
    quiet = ["--agent-report", str(report), "--no-header", "--tb=native", "--timeout=240", "-p", "no:cacheprovider"]
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*pytest, *chosen, *quiet, f"--basetemp={folder / f'tmp-{provider}'}", *extra],
            cwd=ROOT, timeout=BOUND, check=False, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, output = 1, f"{provider}: killed after {BOUND:.0f} s; so far: {late.stdout!r}"
    return Verdict(provider, code, time.monotonic() - began, output, read_report(report))


def read_report(report: Path) -> Sequence[Outcome]:
    """What the plugin wrote; a check that failed twice (in the test, and after it) is told once."""
    if not report.exists():
        return ()
    lines = [Outcome(**json.loads(line)) for line in report.read_text().splitlines()]
    return list({line.check: line for line in sorted(lines, key=lambda line: line.outcome == "failed")}.values())


@contextmanager
def fake_llm(folder: Path) -> Iterator[str]:
    """The fake model server in a process of its own; the value is its base URL."""
    command = [sys.executable, "-m", "tools.fake_llm", "--log", str(folder / LLM_LOG)]
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait(10)
