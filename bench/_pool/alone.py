"""Scenes in a process of their own, without a network where the system allows that; their report comes back as data."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bench.headlines import Headline
from bench.measure import Claim, Report, Row
from tools.agents.__main__ import REQUIRED
from tools.agents.offline import way_in
from tools.agents.pins import PINS, InstallFailed, Pin, cache_folder, install
from tools.clients.pins import ACPX

ROOT = Path(__file__).resolve().parents[2]
BOUND = 900.0
"""Seconds; a bench that hangs is killed."""


def played(module: str, plan: Mapping[str, object]) -> Report:
    """Run `module` with this plan, a scratch folder and the rival."""
    rival = home_of(ACPX)
    way = way_in()
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as folder:
        report = Path(folder) / "report.json"
        whole = {
            "folder": folder,
            "acpx": None if rival is None else str(rival),
            "report": str(report),
            "alone": way is not None,
            **plan,
        }
        subprocess.run(
            [*(way or ()), sys.executable, "-m", module, json.dumps(whole)], cwd=ROOT, check=True, timeout=BOUND
        )
        found = restored(json.loads(report.read_text()))
    if rival is None:
        found.notes.append("acpx could not be installed and is not compared")
    if way is None:
        found.notes.append("no network namespace is allowed here: the agents had the network of this machine")
    return found


def played_by_each(module: str, *, quick: bool, without: Collection[str] = ()) -> Report:
    """The same with every agent that can be installed here; a quick run takes those that we cannot do without."""
    wanted = [pin for pin in sorted(PINS, key=lambda pin: pin.provider) if not quick or pin.provider in REQUIRED]
    homes = {pin.provider: home_of(pin) for pin in wanted if pin.provider not in without}
    installs = {name: str(home) for name, home in homes.items() if home is not None}
    report = played(module, {"installs": installs, "quick": quick})
    report.notes += [f"{name} could not be installed and is not measured" for name in homes if name not in installs]
    return report


def home_of(pin: Pin) -> Path | None:
    """Where it is installed, now at the latest; None on a machine that cannot have it."""
    try:
        return install(pin, cache_folder(), lambda line: print(line, file=sys.stderr))
    except InstallFailed as failed:
        print(f"{pin.provider}: {failed}", file=sys.stderr)
        return None


def restored(kept: dict[str, Any]) -> Report:
    """The report that the other process wrote."""
    rows = [Row(row["name"], row["unit"], tuple(row["samples"])) for row in kept["rows"]]
    claims = [Claim(**claim) for claim in kept["claims"]]
    headlines = [Headline(**{**one, "bars": tuple(map(tuple, one["bars"]))}) for one in kept["headlines"]]
    return Report(kept["title"], rows, claims, kept["notes"], headlines)
