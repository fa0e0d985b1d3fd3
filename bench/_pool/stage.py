"""The other half of `bench/_pool/alone.py`: what a scene finds in the process that was started for it.

Rules: its report is written however it ends, so that what was measured before a failure is not lost with it.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench._pool.ground import Ground
from bench.measure import Report
from tools.agents.offline import raise_loopback
from tools.agents.recipes import RECIPES, Place
from tools.agents.suite import fake_llm


@dataclass(frozen=True)
class Stage:
    """What the other side planned, a model that answers at once, and a report to fill."""

    plan: dict[str, Any]
    llm: str
    report: Report

    @property
    def folder(self) -> Path:
        """Scratch."""
        return Path(self.plan["folder"])

    @property
    def acpx(self) -> Path | None:
        """Where the rival is installed."""
        return self.plan["acpx"] and Path(self.plan["acpx"])

    def ground_of(self, provider: str) -> Ground:
        """A place of its own for one agent of the plan."""
        folder = self.folder / provider
        (folder / "work").mkdir(parents=True)
        install = Path(self.plan["installs"].get(provider, folder))
        ground = Ground(folder, install, self.llm, bool(self.plan["quick"]), self.acpx, provider)
        if provider not in RECIPES:
            return replace(ground, model="demo")
        (folder / "home").mkdir()
        return replace(ground, model=RECIPES[provider](Place(install, folder / "home", self.llm)).model)


@contextmanager
def stage(title: str) -> Iterator[Stage]:
    """Where the program's argument says."""
    plan = json.loads(sys.argv[1])
    if plan["alone"]:
        raise_loopback()
    report = Report(title)
    with fake_llm(Path(plan["folder"])) as llm:
        try:
            yield Stage(plan, llm, report)
        finally:
            Path(plan["report"]).write_text(json.dumps(asdict(report)))
