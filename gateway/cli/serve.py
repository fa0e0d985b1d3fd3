"""`ostler serve`: until the gateway exists, one round trip through the demo agent, which is what it will be made of."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

SUMMARY = "run the gateway (for now: one round trip through the demo agent)"


def run(argv: list[str]) -> int:
    """Start an agent, say hello, print the answer."""
    if argv:
        print("usage: ostler serve", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ostler-") as folder:
        print(asyncio.run(round_trip(Path(folder).resolve())))
    return 0


async def round_trip(folder: Path) -> str:
    """One prompt, answered by a real process."""
    from ostler.pool.events import Text  # noqa: PLC0415 - only who serves pays for these
    from ostler.pool.gate import OpenGates  # noqa: PLC0415 - as above
    from ostler.pool.keys import TransportKey  # noqa: PLC0415 - as above
    from ostler.pool.launch import launch  # noqa: PLC0415 - as above
    from ostler.pool.order import SeatOrder  # noqa: PLC0415 - as above
    from ostler.pool.permission import allow  # noqa: PLC0415 - as above
    from ostler.pool.process import Keeper  # noqa: PLC0415 - as above
    from ostler.pool.prompt import TextPart  # noqa: PLC0415 - as above
    from ostler.pool.providers import load  # noqa: PLC0415 - as above
    from ostler.pool.settings import ProviderSettings  # noqa: PLC0415 - as above
    from ostler.pool.transport import Transport  # noqa: PLC0415 - as above

    keeper = await Keeper.open(folder / "run", "serve")
    try:
        key = TransportKey("demo", "demo", str(folder))
        plan = launch(load()[key.provider], ProviderSettings(home=str(folder)), key, os.environ)
        transport = await Transport.start(plan, keeper=keeper, gates=OpenGates())
        session = await transport.open(SeatOrder(str(folder), allow))
        turn = await session.prompt([TextPart("hello")])
        answer = "".join([event.text async for event in turn if isinstance(event, Text)])
        await session.close()
        await transport.close()
        return f"{key}: pid {transport.pid} answered {answer!r}"
    finally:
        await keeper.aclose()
