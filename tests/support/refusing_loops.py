"""Event loops that take so many pipes and refuse the next one, as they do when something about it is wrong."""

import asyncio
from collections.abc import Callable
from typing import IO, Any

import uvloop

Loop = Callable[[], asyncio.AbstractEventLoop]


class Refused(OSError):
    """What the loop says."""


def _refuse() -> asyncio.BaseProtocol:
    raise Refused("not this one")


def refusing(kind: type[asyncio.AbstractEventLoop], takes: int) -> Loop:
    """Loops of this kind that refuse every pipe behind the first ones. The refusal is raised within the real thing."""
    taken = 0

    def protocol(given: Callable[[], Any]) -> Callable[[], Any]:
        nonlocal taken
        taken += 1
        return given if taken <= takes else _refuse

    class Refusing(kind):  # type: ignore[misc, valid-type] # either of two
        async def connect_read_pipe(self, protocol_factory: Callable[[], Any], pipe: IO[bytes]) -> Any:
            return await super().connect_read_pipe(protocol(protocol_factory), pipe)

        async def connect_write_pipe(self, protocol_factory: Callable[[], Any], pipe: IO[bytes]) -> Any:
            return await super().connect_write_pipe(protocol(protocol_factory), pipe)

    return Refusing


KINDS = (asyncio.SelectorEventLoop, uvloop.Loop)
