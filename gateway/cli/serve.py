"""`ostler serve`: until the gateway exists, one round trip through the demo agent, which is what it will be made of."""

import asyncio
import sys
import tempfile
from pathlib import Path

SUMMARY = "run the gateway (for now: one round trip through the demo agent)"


def run(argv: list[str]) -> int:
    """Start an agent, say hello, print the answer."""
    if argv:
        print("usage: ostler serve", file=sys.stderr)
        return 2
    from ostler.gateway.round_trip import round_trip  # noqa: PLC0415 - only who serves pays for the pool

    with tempfile.TemporaryDirectory(prefix="ostler-") as folder:
        print(asyncio.run(round_trip(Path(folder).resolve())))
    return 0
