"""Shared by providers that use a remote service: ids that a service accepts, and an event loop for async clients."""

import asyncio
import hashlib
import re
from collections.abc import Coroutine
from threading import Thread
from typing import Any, Final, TypeVar

T = TypeVar("T")

UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
READABLE: Final = 40
MARK: Final = 16


def name_for(prefix: str, name: str) -> str:
    """Turn a name of ours into an id of letters, digits and dashes. Different names give different ids."""
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:MARK]
    return "-".join(part for part in (prefix, UNSAFE.sub("-", name)[:READABLE].strip("-"), mark) if part)


class OwnLoop:
    """An event loop in a thread of its own, for an async client that several threads call.

    A client belongs to the loop that opened its connections, and the gateway's loop is not for plug-ins to use.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Run `work` on the loop and return its result. After `seconds` it is cancelled and `TimeoutError` is
        raised."""
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop).result()

    def close(self) -> None:
        """End the thread. Work that still runs on the loop is lost."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
