"""Finds the gateway to talk to: the named one, else the one of the data folder, else one of our own.

Rules:
- A new user needs one command only: if no gateway runs, this terminal starts one, which ends with the terminal.
- A gateway that was used and is gone is waited for: it may be restarting, and a terminal that took its data folder
  would keep it from starting. Only another terminal's gateway is replaced, because it has ended with its terminal.
- A key is sent only to the gateway that was named or configured, after it has answered as a gateway.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Self

from ostler.gateway.cli.terminal.http import UNIX, HttpClient, Unreachable
from ostler.gateway.config.data_folder import spelled_out
from ostler.gateway.config.load import Loaded, load
from ostler.gateway.model.errors import StoreOwned
from ostler.gateway.server.address import is_ours, left_address
from ostler.gateway.server.importing import importing
from ostler.wire.json import Undecodable, decode

log = logging.getLogger(__name__)
PROBE_SECONDS = 3.0
DRAINING = "draining"
"""The status of `/readyz` on a gateway that is about to stop."""
OWNED_SECONDS = 10.0
"""Seconds that another terminal may take to start its gateway."""
LOOK_EVERY = 0.1
LOOK_SELDOM = 1.0
"""Maximum seconds between two looks for a gateway that is gone."""
COMMAND = "ostler chat"
"""What the lock of the data folder says about a terminal's own gateway."""


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The options of the command line that concern the gateway."""

    url: str | None = None
    config: str | None = None
    data_dir: str | None = None
    prewarm: bool = False
    """Whether our own gateway starts the default agent at once, while the user is still typing."""
    patience: float | None = None
    """Seconds to wait for a gateway that was used and is gone; None: until the user ends the wait."""


class GatewayLocator:
    """Finds a gateway, and another one if that is gone. A gateway that it started ends with it."""

    def __init__(
        self,
        where: GatewayOptions,
        loaded: Loaded,
        environ: Mapping[str, str],
        stack: AsyncExitStack,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` shows the user what happened to a gateway that is gone."""
        self._tell = tell
        self._met: HttpClient | None = None
        self._where = where
        self._loaded = loaded
        self._environ = environ
        self._stack = stack
        self._key = environ.get("OSTLER_API_KEY") or loaded.settings.auth.api_key

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, where: GatewayOptions, environ: Mapping[str, str], tell: Callable[[str], None]
    ) -> AsyncIterator[Self]:
        """Open a locator with the loaded configuration; closes its own gateway at the end."""
        async with AsyncExitStack() as stack:
            yield cls(where, load(environ, config=where.config, data_dir=where.data_dir), environ, stack, tell)

    async def find(self) -> HttpClient:
        """A client of a gateway that answers. Once a gateway was used, wait for its return."""
        if self._met is None:
            self._met = await self._running() or await self._own_or_found()
        elif (found := await self._taking_work()) is not None:
            self._met = found
        elif self._where.url is None and self._served_by_a_terminal():
            self._tell("The terminal that brought the gateway along has ended; this one brings one along now.")
            self._met = await self._own_or_found()
        else:
            self._met = await self._back(self._met)
        return self._met

    async def _running(self) -> HttpClient | None:
        """A client of the named gateway, else of the folder's or the configured one. Raises `Unreachable` if the named
        one does not answer."""
        if self._where.url is not None:
            return await reached(HttpClient(self._where.url.rstrip("/"), self._key))
        return await running_gateway(self._loaded, self._key)

    async def _taking_work(self) -> HttpClient | None:
        """The same, but None for a gateway that is about to stop."""
        try:
            client = await self._running()
            return None if client is None or await leaves(client) else client
        except Unreachable as error:
            log.debug("%s", error)
            return None

    async def _back(self, met: HttpClient) -> HttpClient:
        """Wait for a gateway that was used. Raises `Unreachable` after `patience`."""
        self._tell(f"The gateway at {met.address} is gone or about to stop; waiting for it. Ctrl-C keeps your text.")
        pause = LOOK_EVERY
        try:
            async with asyncio.timeout(self._where.patience):
                while (client := await self._taking_work()) is None:
                    await asyncio.sleep(pause)
                    pause = min(pause * 1.5, LOOK_SELDOM)
        except TimeoutError as error:
            raise Unreachable(met.address, f"it did not come back within {self._where.patience:g} s") from error
        self._tell(f"The gateway is back at {client.address}.")
        return client

    def _served_by_a_terminal(self) -> bool:
        """Whether the last holder of the data folder was the gateway of a terminal."""
        with importing():
            from ostler.gateway.stores.owner import last_holder  # noqa: PLC0415 - seldom needed, and it loads SQLite

        return last_holder(self._loaded.data_dir).command == COMMAND

    async def _own_or_found(self) -> HttpClient:
        """Start our own gateway, or use that of another terminal if it started first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + OWNED_SECONDS
        while True:
            try:
                with importing():
                    from ostler.gateway.cli.terminal.own import own_gateway  # noqa: PLC0415 - see there

                own = own_gateway(self._loaded, self._environ, prewarm=self._where.prewarm)
                return await self._stack.enter_async_context(own)
            except StoreOwned:
                found = await running_gateway(self._loaded, self._key)
                if found is not None:
                    return found
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(LOOK_EVERY)


async def reached(client: HttpClient) -> HttpClient:
    """The client itself, if a gateway answers; else raises `Unreachable`."""
    if not await answers(client):
        raise Unreachable(client.address, "what answers there is no ostler gateway")
    return client


async def running_gateway(loaded: Loaded, key: str | None) -> HttpClient | None:
    """A client of the gateway of this folder or configuration; None if none runs."""
    for address in (left_address(loaded.data_dir), configured_address(loaded)):
        if address is None:
            continue
        try:
            if await answers(HttpClient(address)):
                if key is None or await asyncio.to_thread(is_ours, address):
                    return HttpClient(address, key)
                log.warning("somebody else listens at %s: no key is sent there", address)
        except Unreachable as error:
            log.debug("%s", error)
    return None


def configured_address(loaded: Loaded) -> str | None:
    """Where a configured gateway should listen. Without a configuration file nothing is asked: any program may use the
    default port."""
    gateway = loaded.settings.gateway
    if loaded.file is None:
        return None
    if gateway.uds:
        return f"{UNIX}{spelled_out(gateway.uds)}"
    return f"http://127.0.0.1:{gateway.port}"


async def answers(client: HttpClient) -> bool:
    """Whether a gateway answers; raises `Unreachable` if nothing does. Asks without a key."""
    try:
        async with asyncio.timeout(PROBE_SECONDS), HttpClient(client.address).request("GET", "/healthz") as reply:
            found = decode(await reply.read())
    except TimeoutError as error:
        raise Unreachable(client.address, f"no answer within {PROBE_SECONDS:g} s", before_sending=True) from error
    except Undecodable:
        return False
    return isinstance(found, dict) and found.get("status") == "ok"


async def leaves(client: HttpClient) -> bool:
    """Whether the gateway refuses new work because it is about to stop."""
    try:
        async with asyncio.timeout(PROBE_SECONDS), HttpClient(client.address).request("GET", "/readyz") as reply:
            found = decode(await reply.read())
    except (TimeoutError, Undecodable):
        return True
    return isinstance(found, dict) and found.get("status") == DRAINING
