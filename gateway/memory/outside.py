"""What providers that speak to a service share: names that a service accepts, and a loop for clients that need one."""

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
    """A name of ours as an id out there: letters, digits, dashes, and never the same for two names."""
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:MARK]
    return "-".join(part for part in (prefix, UNSAFE.sub("-", name)[:READABLE].strip("-"), mark) if part)


class OwnLoop:
    """A loop in a thread of its own, for an async client that is called from several threads.

    A client belongs to the loop that opened its connections; ours serves the gateway and is not for plug-ins to use.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """What `work` returns; `TimeoutError` where it takes longer, and then it is cancelled."""
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop).result()

    def close(self) -> None:
        """End the thread. What still runs there is lost."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
