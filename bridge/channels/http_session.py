"""The HTTP clients of one binding: sessions with a handshake, and exchanges that need none.

Rules: a session id is valid only together with the token of the binding it was opened under. All sessions end with the
binding. Every request has an `McpClient` of its own that starts from what the session has negotiated, so all messages
of a call leave on the response of the request that began it.
"""

from ostler.bridge.channels.http_stream import Exchanges, HttpExchange, Mailbox
from ostler.bridge.session_binding import SessionBinding


class HttpSession:
    """One client that completed the handshake."""

    __slots__ = ("_binding", "exchanges", "mailbox", "main")

    def __init__(self, binding: SessionBinding, limit: int) -> None:
        self._binding = binding
        self.mailbox = Mailbox()
        self.main = binding.conversation()
        self.main.connect(self.mailbox, resumed=True)
        self.exchanges = Exchanges(limit)

    def answers(self, frame: bytes) -> list[bytes]:
        """The answers to a frame about the session itself: the handshake, the log level."""
        return self.mailbox.answers(self.main, frame)

    def notify(self, frame: bytes) -> None:
        """Pass a notification to every exchange: a cancellation is for one of them, which knows the id."""
        self.answers(frame)
        for exchange in self.exchanges:
            exchange.receive(frame)

    def exchange(self, frame: bytes) -> HttpExchange:
        conversation = self._binding.conversation()
        agreed, session = self.main.session, conversation.session
        session.version, session.initialized, session.level = agreed.version, agreed.initialized, agreed.level
        return self.exchanges.begin(conversation, frame)

    def end(self) -> None:
        self.mailbox.close()
        self.exchanges.abandon()


class HttpClientSlot:
    """A binding and its HTTP clients."""

    __slots__ = ("_limit", "_sessions", "_stateless", "binding")

    def __init__(self, binding: SessionBinding, limit: int) -> None:
        self.binding = binding
        self._limit = limit
        self._sessions: dict[str, HttpSession] = {}
        self._stateless = Exchanges(limit)
        binding.on_definitions(self._tools_changed)

    def open(self, name: str) -> HttpSession:
        """Open a session. Above the limit the oldest one is closed: some clients return without ever closing."""
        if len(self._sessions) >= self._limit:
            self.close(next(iter(self._sessions)))
        self._sessions[name] = session = HttpSession(self.binding, self._limit)
        return session

    def session(self, name: str) -> HttpSession | None:
        return self._sessions.get(name)

    def close(self, name: str) -> bool:
        session = self._sessions.pop(name, None)
        if session is None:
            return False
        session.end()
        return True

    def exchange(self, frame: bytes) -> HttpExchange:
        """One request that names its own protocol version; no state remains after it."""
        return self._stateless.begin(self.binding.conversation(), frame)

    def end(self) -> None:
        for name in tuple(self._sessions):
            self.close(name)
        self._stateless.abandon()

    def _tools_changed(self) -> None:
        for session in self._sessions.values():
            session.main.tools_changed()
        for exchange in self._stateless:
            if exchange.listening:
                exchange.conversation.tools_changed()
