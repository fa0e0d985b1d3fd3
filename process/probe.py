"""Asking a disk that may never answer: on a thread of its own, and never for longer than the asker has patience.

Rules:
- A look at a dead network mount never comes back. So each is made on a thread of its own, a daemon, because nothing can
  end it and the end of the process must not wait for it. There are at most `LOOKS` of them; who comes when all are
  taken waits for one to come back, as long as he has patience: many may ask at once of a disk that is well.
- Looks at one place, where the asker names it, are `LOOKS_AT_A_PLACE` at most: a dead disk that is asked under one name
  after the other must not take what the living ones need.
- There is one look per name at a time; whoever asks meanwhile waits for the same one.
"""

import asyncio
import threading
from collections.abc import Callable, Hashable
from contextvars import Context
from typing import Any, Final, Generic, TypeVar

LOOKS: Final = 16
LOOKS_AT_A_PLACE: Final = 4
PATIENCE: Final = 10.0

Found = TypeVar("Found")


class ProbeFailed(Exception):
    """What was asked of the disk could not be asked, or was not answered in time. `why` says which."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class BlockingProbe(Generic[Found]):
    """Looks of one kind, on one loop."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[Found]] = {}
        self._places: dict[Hashable, Hashable] = {}
        """Of each look that is under way, None where its asker named none."""
        self._returned: asyncio.Future[None] | None = None
        """Of those who found all looks taken: done when the next one comes back."""

    @property
    def idle(self) -> bool:
        """Whether no look is under way."""
        return not self._under_way

    def looking(self, name: Hashable) -> bool:
        """Whether somebody looks already."""
        return name in self._under_way

    def begin(
        self,
        name: Hashable,
        work: Callable[[], Found],
        learn: Callable[[asyncio.Future[Found]], None] | None = None,
        place: Hashable = None,
    ) -> asyncio.Future[Found]:
        """Look, or join who looks already. `learn` is told of a look that begins here. Raises `NoLook`."""
        look = self._under_way.get(name)
        if look is not None:
            return look
        if (crowd := self._crowd(place)) is not None:
            raise ProbeFailed(f"{crowd} have not come back; is a disk dead?")
        look = asyncio.get_running_loop().create_future()
        try:
            threading.Thread(target=_look, args=(look, work), name=f"look at {name}", daemon=True).start()
        except RuntimeError as error:
            raise ProbeFailed(f"it could not be looked at: {error}") from error
        # Not before it has begun: a look that nobody makes would be waited for by all who ask for the name.
        self._under_way[name], self._places[name] = look, place
        # In a context of its own: what the first claimer carries must not live on in the look.
        look.add_done_callback(lambda done: self._ended(name, done), context=Context())
        if learn is not None:
            look.add_done_callback(learn, context=Context())
        return look

    async def find(
        self,
        name: Hashable,
        work: Callable[[], Found],
        patience: float,
        learn: Callable[[asyncio.Future[Found]], None] | None = None,
        place: Hashable = None,
    ) -> Found:
        """What `work` found. Raises `NoLook`, and whatever `work` raised."""
        loop, patience = asyncio.get_running_loop(), min(patience, PATIENCE)
        until = loop.time() + patience
        await self._wait_for_turn(name, place, until)
        look = self.begin(name, work, learn, place)
        await _wait_for(look, until - loop.time())
        if not look.done():
            raise ProbeFailed(f"its file system did not answer within {patience:.3g} s")
        return look.result()

    def _crowd(self, place: Hashable) -> str | None:
        """Who has taken all the looks that there are for the place; None while there is one to be had."""
        if len(self._under_way) >= LOOKS:
            return f"{LOOKS} looks at other directories"
        if place is not None and sum(one == place for one in self._places.values()) >= LOOKS_AT_A_PLACE:
            return f"{LOOKS_AT_A_PLACE} looks at the same place"
        return None

    async def _wait_for_turn(self, name: Hashable, place: Hashable, until: float) -> None:
        """Until there is a look to be had, or one to be joined. Whoever waited in vain is told so by `begin`."""
        loop = asyncio.get_running_loop()
        while self._crowd(place) and name not in self._under_way and (left := until - loop.time()) > 0:
            if self._returned is None:
                self._returned = loop.create_future()
            await _wait_for(self._returned, left)

    def _ended(self, name: Hashable, look: asyncio.Future[Found]) -> None:
        del self._under_way[name], self._places[name]
        if self._returned is not None:
            self._returned.set_result(None)
            self._returned = None
        if not look.cancelled():
            look.exception()  # retrieved: those who asked may all have lost their patience


def _look(look: asyncio.Future[Found], work: Callable[[], Found]) -> None:
    loop = look.get_loop()
    try:
        settle: Callable[[], None] = _giving(look, work())
    except Exception as error:  # noqa: BLE001 (raised again where it is awaited; here nobody would see it)
        settle = _raising(look, error)
    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _giving(look: asyncio.Future[Found], found: Found) -> Callable[[], None]:
    return lambda: None if look.done() else look.set_result(found)


def _raising(look: asyncio.Future[Found], error: Exception) -> Callable[[], None]:
    return lambda: None if look.done() else look.set_exception(error)


async def _wait_for(look: asyncio.Future[Any], patience: float) -> None:
    """Not `asyncio.timeout`: its timer, cancelled, would keep the claimer's context until it would have rung."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_look: asyncio.Future[Any]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    look.add_done_callback(wake, context=Context())
    alarm = loop.call_later(patience, wake, look, context=Context())
    try:
        await waiter
    finally:
        alarm.cancel()
        look.remove_done_callback(wake)
