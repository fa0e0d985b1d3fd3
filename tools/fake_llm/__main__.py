"""`python -m tools.fake_llm --log FILE [--port N]`: prints the port, serves until stdin ends."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from ostler.wire.json import JsonObject
from tools.fake_llm.server import running


async def serve(port: int, log: Path) -> None:
    """Serve until stdin ends: the port of a dead test run must not stay open."""
    with log.open("a", buffering=1) as lines:

        def write(record: JsonObject) -> None:
            lines.write(json.dumps(record) + "\n")

        async with running(write, port) as chosen:
            print(chosen, flush=True)
            await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.fake_llm", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True)
    given = parser.parse_args()
    asyncio.run(serve(given.port, given.log))


if __name__ == "__main__":
    main()
