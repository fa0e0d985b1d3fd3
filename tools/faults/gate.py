"""Where conversations wait while there is no gateway, or while it is to rest."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

PATIENCE = 90.0
"""Seconds for one answer: far above every deadline of the gateway that is tested."""
ANY = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=2)
"""Idle connections are left before the gateway leaves them: a question on one that it just closed would be lost."""


class Gate:
    """Open or closed. Whoever is inside leaves by himself."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers
        self._open = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.inside = 0
        """How many wait for an answer, about."""
        self._over = False
        self._http: httpx.AsyncClient | None = None

    @property
    def http(self) -> httpx.AsyncClient:
        """The way to the gateway."""
        assert self._http is not None
        return self._http

    @property
    def ended(self) -> bool:
        """Whether nobody comes in any more."""
        return self._over

    async def enter(self) -> bool:
        """Wait until there is a gateway. False when there will be none any more."""
        await self._open.wait()
        if self._over:
            return False
        self.inside += 1
        self._empty.clear()
        return True

    def leave(self) -> None:
        """Of somebody who had entered."""
        self.inside -= 1
        if not self.inside:
            self._empty.set()

    @asynccontextmanager
    async def aside(self, base: str) -> AsyncIterator[httpx.AsyncClient]:
        """A way to the gateway that nobody else takes."""
        async with httpx.AsyncClient(
            base_url=base, headers=self._headers, timeout=PATIENCE, trust_env=False, limits=ANY
        ) as http:
            yield http

    @asynccontextmanager
    async def opened(self, base: str) -> AsyncIterator[httpx.AsyncClient]:
        """Everybody talks until the block ends; then the last one is waited for, and no connection is left."""
        async with self.aside(base) as http:
            self._http = http
            self._open.set()
            try:
                yield http
            finally:
                self._open.clear()
                async with asyncio.timeout(PATIENCE + 10):
                    await self._empty.wait()

    def end(self) -> None:
        """Let everybody go home."""
        self._over = True
        self._open.set()
