"""One prompt through the demo agent: a real process, a real session, a real answer."""

import os
from pathlib import Path

from ostler.pool.events import Text
from ostler.pool.gate import OpenGates
from ostler.pool.keys import TransportKey
from ostler.pool.launch import launch
from ostler.pool.order import SeatOrder
from ostler.pool.permission import allow
from ostler.pool.process import Keeper
from ostler.pool.prompt import TextPart
from ostler.pool.providers import load
from ostler.pool.settings import ProviderSettings
from ostler.pool.transport import Transport


async def round_trip(folder: Path) -> str:
    """Start, open, ask, close; tell what was answered."""
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
