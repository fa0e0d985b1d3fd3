"""What the pool is for, in figures: pool on, pool off, and a plain client with one process per session, side by side.

The agent is a real gemini-cli (`make agents` installs it) behind a fake model that answers at once, so every number is
overhead only. All of it runs in a network namespace with loopback only, where the system allows one. The scenes are in
`bench/_pool/`; `python -m bench.pool [--quick] [SCENE ...]` plays single ones.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.headlines import Headline
from bench.measure import Claim, Report, Row
from tests.agents.offline import way_in
from tests.agents.pins import PINS, InstallFailed, cache_folder, install
from tests.clients.pins import ACPX

ROOT = Path(__file__).resolve().parents[1]
BOUND = 900.0
"""Seconds; a bench that hangs is killed."""


def run(quick: bool, scenes: Sequence[str] = ()) -> Report:
    """Play the scenes in a process of their own, without a network."""
    pin = next(pin for pin in PINS if pin.provider == "gemini-acp")
    home = install(pin, cache_folder(), lambda line: print(line, file=sys.stderr))
    rival = rival_home()
    way = way_in()
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as folder:
        report = Path(folder) / "report.json"
        plan = {
            "folder": folder,
            "install": str(home),
            "acpx": None if rival is None else str(rival),
            "report": str(report),
            "quick": quick,
            "alone": way is not None,
            "scenes": list(scenes),
        }
        subprocess.run(
            [*(way or ()), sys.executable, "-m", "bench._pool", json.dumps(plan)], cwd=ROOT, check=True, timeout=BOUND
        )
        found = restored(json.loads(report.read_text()))
    if rival is None:
        found.notes.append("acpx could not be installed and is not compared")
    if way is None:
        found.notes.append("no network namespace is allowed here: the agents had the network of this machine")
    return found


def rival_home() -> Path | None:
    """Where acpx is; None on a machine that cannot have it."""
    try:
        return install(ACPX, cache_folder(), lambda line: print(line, file=sys.stderr))
    except InstallFailed as failed:
        print(f"acpx: {failed}", file=sys.stderr)
        return None


def restored(kept: dict[str, Any]) -> Report:
    """The report that the other process wrote."""
    rows = [Row(row["name"], row["unit"], tuple(row["samples"])) for row in kept["rows"]]
    claims = [Claim(**claim) for claim in kept["claims"]]
    headlines = [
        Headline(one["name"], one["unit"], tuple(map(tuple, one["bars"])), one["ratio"]) for one in kept["headlines"]
    ]
    return Report(kept["title"], rows, claims, kept["notes"], headlines)


def main() -> int:
    """Play the scenes that are named."""
    from bench.__main__ import lines  # noqa: PLC0415 (the frame imports this module)

    quick = "--quick" in sys.argv
    report = run(quick, [name for name in sys.argv[1:] if not name.startswith("-")])
    print(*lines(report), sep="\n")
    return sum(not claim.holds for claim in report.claims)


if __name__ == "__main__":
    sys.exit(main())
