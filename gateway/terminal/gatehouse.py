"""The gateway to talk to: the one that is named, else the one of this data folder, else one of our own.

Rules:
- A newcomer types one command. Where no gateway runs, this terminal brings one along; it listens on a socket that only
  this user can open, and ends with the terminal.
- A key goes to the gateway that was named or configured, after it has shown that it is one.
- What our own gateway logs goes to a file: the screen belongs to the conversation.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import msgspec

from ostler.gateway.address import leave_address, left_address
from ostler.gateway.app import open_gateway
from ostler.gateway.assembly.crew import log_death
from ostler.gateway.config.load import Loaded, load
from ostler.gateway.config.settings import AuthSettings
from ostler.gateway.errors import StoreOwned
from ostler.gateway.listener import address_of, listen_unix
from ostler.gateway.serving import Server
from ostler.gateway.terminal.http import UNIX, Line, Unreachable
from ostler.pool.crew import Crew
from ostler.wire.json import Undecodable, decode

log = logging.getLogger(__name__)
LOG_FILE = "chat.log"
PROBE_SECONDS = 3.0
OWNED_SECONDS = 10.0
"""How long another terminal may take to bring its gateway up."""
LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What the command line says."""

    url: str | None = None
    config: str | None = None
    data_dir: str | None = None


class Gatehouse:
    """Finds a gateway, and another one when that is gone. What it brought along ends with it."""

    def __init__(self, where: Whereabouts, loaded: Loaded, environ: Mapping[str, str], stack: AsyncExitStack) -> None:
        self._where = where
        self._loaded = loaded
        self._environ = environ
        self._stack = stack
        self._key = environ.get("OSTLER_API_KEY") or loaded.settings.auth.api_key

    @classmethod
    @asynccontextmanager
    async def opened(cls, where: Whereabouts, environ: Mapping[str, str]) -> AsyncIterator[Self]:
        """For as long as the block lasts."""
        async with AsyncExitStack() as stack:
            yield cls(where, load(environ, config=where.config, data_dir=where.data_dir), environ, stack)

    async def find(self) -> Line:
        """A line to a gateway that answers."""
        if self._where.url is not None:
            return await reached(Line(self._where.url.rstrip("/"), self._key))
        return await running_gateway(self._loaded, self._key) or await self._own_or_found()

    async def _own_or_found(self) -> Line:
        """Our own gateway; or, where another terminal was faster, that one's."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + OWNED_SECONDS
        while True:
            try:
                return await self._stack.enter_async_context(own_gateway(self._loaded, self._environ))
            except StoreOwned:
                found = await running_gateway(self._loaded, self._key)
                if found is not None:
                    return found
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(LOOK_EVERY)


async def reached(line: Line) -> Line:
    """The line itself, if a gateway answers there."""
    if not await answers(line):
        raise Unreachable(line.address, "what answers there is no ostler gateway")
    return line


async def running_gateway(loaded: Loaded, key: str | None) -> Line | None:
    """The gateway of this folder or of this configuration, if it runs."""
    for address in (left_address(loaded.data_dir), configured_address(loaded)):
        if address is None:
            continue
        try:
            if await answers(Line(address)):
                return Line(address, key)
        except Unreachable as error:
            log.debug("%s", error)
    return None


def configured_address(loaded: Loaded) -> str | None:
    """Where it should listen; without a configuration any program may sit on the usual port, so nobody is asked."""
    gateway = loaded.settings.gateway
    if loaded.file is None:
        return None
    if gateway.uds:
        return f"{UNIX}{Path(gateway.uds).expanduser().absolute()}"
    return f"http://127.0.0.1:{gateway.port}"


async def answers(line: Line) -> bool:
    """Whether a gateway is there; `Unreachable` where nobody is. Asked without a key."""
    try:
        async with asyncio.timeout(PROBE_SECONDS), Line(line.address).request("GET", "/healthz") as reply:
            found = decode(await reply.read())
    except TimeoutError as error:
        raise Unreachable(line.address, f"no answer within {PROBE_SECONDS:g} s", before_sending=True) from error
    except Undecodable:
        return False
    return isinstance(found, dict) and found.get("status") == "ok"


@asynccontextmanager
async def own_gateway(loaded: Loaded, environ: Mapping[str, str]) -> AsyncIterator[Line]:
    """A whole gateway in this process. Or `StoreOwned`."""
    log_to(loaded.data_dir)
    settings = msgspec.structs.replace(loaded.settings, auth=AuthSettings())
    with TemporaryDirectory(prefix="ostler-chat-") as folder:
        # The folder is ours alone, so whoever gets to the socket is this user: no key is needed.
        listener = listen_unix(Path(folder) / "socket")
        async with open_gateway(replace(loaded, settings=settings), environ) as gateway:
            address = address_of(listener)
            leave_address(loaded.data_dir, address)
            server = Server.of(gateway.app)
            crew = Crew(asyncio.get_running_loop(), log_death)
            serving = crew.start(server.serve(sockets=[listener]), "the gateway of this terminal")
            try:
                yield Line(address)
            finally:
                server.should_exit = True
                await asyncio.wait([serving])


def log_to(folder: Path) -> None:
    """Warnings and worse, for the owner only."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    handler = logging.StreamHandler(os.fdopen(file, "a", encoding="utf-8"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
