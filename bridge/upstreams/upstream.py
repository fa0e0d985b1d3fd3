"""One tool server and its supervisor, which connects, watches and retries.

Rules: the tools listed last stay listed while the server is away, and their calls return errors that say so: a list
that changed with every restart would make each agent read a new list, and some lose their session. One task owns the
connection from opening to close. A call never outlives the connection it was made on, and is never made twice.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.errors import ToolMalformed
from ostler.bridge.toolbox import toolbox
from ostler.bridge.upstreams.remote import Connect, Remote, RemoteLost, RemoteRefused
from ostler.bridge.upstreams.restarts import Restarts
from ostler.bridge.upstreams.settings import UpstreamSettings
from ostler.metrics.loops import Loops
from ostler.wire.json import JsonObject
from ostler.wire.redaction import excerpt

logger = logging.getLogger(__name__)

SHOWN: Final = 500
REASON_PATIENCE: Final = 2.0
CALM: Final = 0.5
"""Minimum seconds between two listings of a server, however often it says that they changed."""


@dataclass(frozen=True, slots=True)
class UpstreamDeps:
    """What a supervisor needs from outside: the connection, time, randomness, loop records."""

    connect: Connect
    clock: Callable[[], float]
    draw: Callable[[], float]
    """A random number from 0 to below 1."""
    loops: Loops = field(default_factory=Loops)


class Upstream:
    """One tool server: its current tools, and calls to it."""

    def __init__(self, settings: UpstreamSettings, deps: UpstreamDeps) -> None:
        self.settings = settings
        self.definitions: tuple[JsonObject, ...] = ()
        self.starts = 0
        self._deps = deps
        self._restarts = Restarts()
        self._names: dict[str, str] = {}
        self._remote: Remote | None = None
        self._trouble = "it has not started yet"
        self._tried = asyncio.Event()
        self._stale = asyncio.Event()
        self._supervision: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._remote is not None

    @property
    def trouble(self) -> str:
        """Why it is not running; meaningless while it is."""
        return self._trouble

    def start(self) -> None:
        if self._supervision is None:
            self._supervision = asyncio.get_running_loop().create_task(self._supervise())
            self._supervision.add_done_callback(self._seen)

    async def tried(self) -> None:
        """Wait until the first attempt has succeeded or failed."""
        await self._tried.wait()

    async def stop(self) -> None:
        supervision, self._supervision = self._supervision, None
        if supervision is not None:
            supervision.cancel()
            await asyncio.wait([supervision])
        self._tried.set()  # a task that is cancelled before its first step has set nothing

    async def call(self, call: ToolCall, /) -> CallResult:
        remote, name = self._remote, self._names.get(call.name)
        if remote is None or name is None:
            return self._away()
        answer = asyncio.get_running_loop().create_task(remote.call(name, call))
        gone = asyncio.get_running_loop().create_task(remote.gone())
        try:
            await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                return self._ended()
            return answer.result()
        except RemoteLost:
            # A caller that retries immediately must get the reason: the supervisor knows it no later than this.
            await asyncio.wait([gone], timeout=REASON_PATIENCE)
            return self._ended()
        except RemoteRefused as refusal:
            return CallResult.error(excerpt(f"{self._title} refused: {refusal}", SHOWN))
        finally:
            answer.cancel()
            gone.cancel()
            await asyncio.wait([answer, gone])

    def _ended(self) -> CallResult:
        return CallResult.error(f"{self._title} ended during the call; it is not known whether the call had effect")

    @property
    def _title(self) -> str:
        return f"the tool server {self.settings.name}"

    def _away(self) -> CallResult:
        return CallResult.error(f"{self._title} is not running and will be tried again ({self._trouble})")

    async def _supervise(self) -> None:
        rounds = self._deps.loops.add("the supervisor of a tool server", patience=math.inf)
        with rounds.running():
            while True:
                begun = self._deps.clock()
                ran = 0.0
                # The round also suppresses a cancellation that a library's own scope raised, not the owner.
                with rounds.round():
                    try:
                        ran = await self._serve(begun)
                    except Exception as error:  # noqa: BLE001 - after any error of an external server it is tried again
                        self._trouble = _message_of(error)
                    finally:
                        self._remote = None
                        self._tried.set()
                pause = self._restarts.ended(ran=ran, draw=self._deps.draw())
                logger.warning("%s is away (%s), next try in %.1f s", self._title, self._trouble, pause)
                await asyncio.sleep(pause)

    async def _serve(self, begun: float) -> float:
        """Serve one connection. Returns how many seconds it lasted."""
        self.starts += 1
        opening = self._deps.connect(self.settings, self._stale.set)
        async with asyncio.timeout(self.settings.start_deadline) as deadline, opening as remote:
            self._learn(await remote.tools())
            deadline.reschedule(None)
            self._remote = remote
            self._tried.set()
            self._trouble = excerpt(await self._attend(remote), SHOWN)
            self._remote = None
            return self._deps.clock() - begun

    async def _attend(self, remote: Remote) -> str:
        """List the tools again whenever they changed, until the server is gone; return the reason."""
        gone = asyncio.get_running_loop().create_task(remote.gone())
        try:
            while True:
                changing = asyncio.get_running_loop().create_task(self._stale.wait())
                try:
                    await asyncio.wait([gone, changing], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changing.cancel()
                if gone.done():
                    return gone.result()
                self._stale.clear()
                async with asyncio.timeout(self.settings.start_deadline):
                    self._learn(await remote.tools())
                await asyncio.wait([gone], timeout=CALM)
        finally:
            gone.cancel()

    def _learn(self, tools: Sequence[JsonObject]) -> None:
        offered = [each for each in tools if self.settings.offers(each["name"]) and self._is_sound(each)]
        shown = {self.settings.shown(each["name"]): each for each in offered}
        self.definitions = tuple({**each, "name": name} for name, each in shown.items())
        self._names = {name: each["name"] for name, each in shown.items()}

    def _is_sound(self, tool: JsonObject) -> bool:
        """Whether agents can be told of the tool. One that cannot must not hide the others of its session."""
        try:
            toolbox([tool])
        except ToolMalformed as error:
            logger.warning("%s: a tool is hidden: %s", self._title, excerpt(str(error), SHOWN))
            return False
        return True

    def _seen(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.critical("%s is no longer supervised", self._title, exc_info=error)


def _message_of(error: BaseException) -> str:
    """The first leaf of nested exception groups, which carries the message that the groups lack."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return excerpt(f"{type(error).__name__}: {error}", SHOWN)
