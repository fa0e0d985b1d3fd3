"""One client process that speaks MCP to one binding, independent of the carrier of its frames.

Rules: it outlives a connection. Without a connection, answers are held (bounded) until the same client comes back, and
notifications are dropped. An answer that does not fit is replaced by a short error, so that a client that does not read
costs a bounded amount and still gets exactly one answer per request.
"""

from collections.abc import Callable
from typing import Protocol

from ostler.bridge.binding import Binding, BoundCall
from ostler.bridge.calls import CallResult
from ostler.bridge.errors import CallRefused
from ostler.bridge.mcp import Attached, BeginCall, End, McpSession, SendFrame
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.stats import Stats


class FrameSink(Protocol):
    """Where frames leave; `waiting` is the number of bytes accepted and not yet sent."""

    def send(self, frame: bytes) -> None: ...

    @property
    def waiting(self) -> int: ...


class Runs(Protocol):
    """What a client needs of the `Runner`."""

    def start(self, binding: Binding, call: BoundCall) -> None: ...

    def cancel(self, call: BoundCall) -> None: ...


class McpClient:
    """The MCP session of one client process, and the connection it has at present."""

    __slots__ = (
        "_held",
        "_limit",
        "_on_attached",
        "_on_list_read",
        "_outlet",
        "_runner",
        "_stats",
        "binding",
        "session",
    )

    def __init__(
        self,
        binding: Binding,
        *,
        settings: BridgeSettings,
        runner: Runs,
        stats: Stats,
        on_attached: Callable[[], None],
        on_list_read: Callable[[], None] = lambda: None,
    ) -> None:
        self.binding = binding
        self.session = McpSession(
            binding=binding,
            origin=self,
            server_name=settings.server_name,
            server_version=settings.server_version,
            page_size=settings.page_size,
        )
        self._limit = settings.outgoing_limit
        self._runner = runner
        self._stats = stats
        self._on_attached = on_attached
        self._on_list_read = on_list_read
        self._outlet: FrameSink | None = None
        self._held: list[bytes] = []

    def connect(self, outlet: FrameSink, *, resumed: bool) -> None:
        """Attach a connection. Unless the same process came back (`resumed`), discard held answers and calls."""
        self._outlet = outlet
        if not resumed:
            self.discard()
        held, self._held = self._held, []
        for frame in held:
            outlet.send(frame)

    def disconnect(self) -> None:
        self._outlet = None

    def discard(self) -> None:
        """End all calls without answers: the client is gone for good."""
        self._held.clear()
        for call in self.session.restart():
            self.binding.finish(call)
            self._runner.cancel(call)

    def receive(self, frame: bytes) -> None:
        seen_before = self.binding.seen_generation
        for effect in self.session.receive(frame):
            match effect:
                case BeginCall(call):
                    self._runner.start(self.binding, call)
                case SendFrame(reply):
                    self._deliver(reply)
                case End(call):
                    self._runner.cancel(call)
                case Attached():
                    self._on_attached()
        if self.binding.seen_generation != seen_before:
            self._on_list_read()

    def tools_changed(self) -> None:
        self._tell(self.session.list_changed())

    def answer(self, call: BoundCall, outcome: CallResult | CallRefused) -> None:
        frame = self.session.answer(call, outcome)
        if frame is None:
            return
        if len(frame) > self._room:
            self._stats.frames_dropped += 1
            frame = self.session.too_large(call)
        self._deliver(frame)

    def progress(
        self, call: BoundCall, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        self._tell(self.session.progress(call, progress, total, message))

    def log(self, call: BoundCall, level: str, data: object, logger: str | None = None) -> None:
        if call in self.binding.calls:
            self._tell(self.session.log(level, data, logger))

    @property
    def _room(self) -> int:
        waiting = sum(map(len, self._held)) if self._outlet is None else self._outlet.waiting
        return self._limit - waiting

    def _deliver(self, frame: bytes) -> None:
        if self._outlet is None:
            self._held.append(frame)
        else:
            self._outlet.send(frame)

    def _tell(self, notice: bytes | None) -> None:
        """Send a notification if the client is connected and reads; otherwise drop and count it."""
        if notice is None:
            return
        if self._outlet is None or len(notice) > self._limit // 8 - self._outlet.waiting:
            self._stats.frames_dropped += 1
        else:
            self._outlet.send(notice)
