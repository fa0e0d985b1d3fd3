"""What the pool is for, in figures: pool on, pool off, and a plain client with one process per session, side by side.

The agent is a real gemini-cli (`make agents` installs it) behind a fake model that answers at once, so every number is
overhead only. All of it runs in a network namespace with loopback only, where the system allows one. The scenes are in
`bench/_pool/`; `python -m bench.pool [--quick] [SCENE ...]` plays single ones.
"""

import sys
from collections.abc import Sequence

from bench._pool.alone import played
from bench.measure import Report
from tools.agents.pins import PINS, cache_folder, install


def run(quick: bool, scenes: Sequence[str] = ()) -> Report:
    """Play the scenes in a process of their own, without a network."""
    pin = next(pin for pin in PINS if pin.provider == "gemini-acp")
    home = install(pin, cache_folder(), lambda line: print(line, file=sys.stderr))
    return played("bench._pool", {"installs": {pin.provider: str(home)}, "quick": quick, "scenes": list(scenes)})


def main() -> int:
    """Play the scenes that are named."""
    from bench.__main__ import lines  # noqa: PLC0415 (the frame imports this module)

    quick = "--quick" in sys.argv
    report = run(quick, [name for name in sys.argv[1:] if not name.startswith("-")])
    print(*lines(report), sep="\n")
    return sum(not claim.holds for claim in report.claims)


if __name__ == "__main__":
    sys.exit(main())
