"""Memory in a Honcho server (`ostler[honcho]`): a Honcho session for each of our sessions, a peer for each user, and
one for the assistant, about which nothing is learned.

Rules:
- Each turn is sent when it ends. Then Honcho's knowledge of the user is fetched for the next turn of the session: only
  the first turn waits for it.
- What was fetched belongs to one session and is dropped at every switch and rewind.
- Peers keep users apart: only the user's own peer is asked.
- `initialize` imports the client, so that only its users pay for the import.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ostler.gateway.memory.outside import name_for
from ostler.gateway.memory.provider import MemoryHome, MemoryProvider

if TYPE_CHECKING:
    import httpx
    from honcho import Honcho, Peer, Session
    from honcho.api_types import MessageCreateParams

ASSISTANT: Final = "ostler-assistant"
MOST_KEPT: Final = 1000
MESSAGE_LIMIT: Final = 20_000
"""Characters of one message; longer texts are sent in pieces."""
PIECES: Final = 20
QUESTION_LIMIT: Final = 2000
FACTS: Final = 10
RETRIES: Final = 1

T = TypeVar("T")


class RecentlyKept(Generic[T]):
    """A bounded map that drops the oldest entry. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._things: OrderedDict[str, T] = OrderedDict()

    def keep(self, name: str, thing: T) -> T:
        with self._lock:
            self._things[name] = thing
            self._things.move_to_end(name)
            if len(self._things) > MOST_KEPT:
                self._things.popitem(last=False)
        return thing

    def get(self, name: str) -> T | None:
        with self._lock:
            return self._things.get(name)

    def take(self, name: str) -> T | None:
        with self._lock:
            return self._things.pop(name, None)


class HonchoMemory(MemoryProvider):
    """Sends the turns of all users, each to the user's own peer."""

    def __init__(self, home: MemoryHome) -> None:
        self._settings = home.settings.honcho
        self._client: Honcho | None = None
        self._http: httpx.Client | None = None
        self._peers: RecentlyKept[Peer] = RecentlyKept()
        self._sessions: RecentlyKept[Session] = RecentlyKept()
        self._fetched: RecentlyKept[str] = RecentlyKept()
        self._parents: RecentlyKept[str] = RecentlyKept()

    def initialize(self) -> None:
        import httpx  # noqa: PLC0415 - comes with an optional library
        from honcho import Honcho  # noqa: PLC0415 - see above

        settings = self._settings
        # Our own client, because Honcho's cannot be closed.
        self._http = httpx.Client(timeout=settings.timeout)
        self._client = Honcho(
            api_key=settings.api_key,
            base_url=settings.url,
            workspace_id=settings.workspace,
            timeout=settings.timeout,
            max_retries=RETRIES,
            http_client=self._http,
        )

    def close(self) -> None:
        if self._http is not None:
            self._http.close()

    def prefetch(self, question: str, *, session_id: str, user: str) -> str:
        fetched = self._fetched.take(session_id)
        return self._known(question, user) if fetched is None else fetched

    def queue_prefetch(self, question: str, *, session_id: str, user: str) -> None:
        self._fetched.keep(session_id, self._known(question, user))

    def sync_turn(self, question: str, answer: str, *, session_id: str, user: str) -> None:
        peer, assistant = self._peer(user), self._assistant()
        spoken = [*said_by(peer, question), *said_by(assistant, answer)]
        if spoken:
            self._session(session_id, peer, assistant).add_messages(spoken)

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: object,
    ) -> None:
        del reset, rewound, kwargs
        self._fetched.take(new_session_id)
        if parent_session_id:
            self._fetched.take(parent_session_id)
            self._parents.keep(new_session_id, parent_session_id)

    def parent(self, session_id: str) -> str:
        """The session that this one continues; "" for none."""
        return self._parents.get(session_id) or ""

    def _known(self, question: str, user: str) -> str:
        context = self._peer(user).context(search_query=question[:QUESTION_LIMIT] or None, search_top_k=FACTS)
        return "\n".join([*(context.peer_card or ()), *(context.representation or "").splitlines()])

    def _peer(self, user: str) -> "Peer":
        name = name_for("user", user)
        return self._peers.get(name) or self._peers.keep(name, self._at_work().peer(name))

    def _assistant(self) -> "Peer":
        from honcho.api_types import PeerConfig  # noqa: PLC0415 - see `initialize`

        known = self._peers.get(ASSISTANT)
        if known is not None:
            return known
        return self._peers.keep(ASSISTANT, self._at_work().peer(ASSISTANT, configuration=PeerConfig(observe_me=False)))

    def _session(self, session_id: str, *peers: "Peer") -> "Session":
        known = self._sessions.get(session_id)
        if known is not None:
            return known
        about: dict[str, object] = {"session_id": session_id}
        if self.parent(session_id):
            about["parent_session_id"] = self.parent(session_id)
        made = self._at_work().session(name_for("", session_id), metadata=about, peers=[*peers])
        return self._sessions.keep(session_id, made)

    def _at_work(self) -> "Honcho":
        if self._client is None:
            raise RuntimeError("honcho was not opened")
        return self._client


def said_by(peer: "Peer", text: str) -> "Sequence[MessageCreateParams]":
    """The text of one side, in pieces that the server accepts."""
    return [peer.message(piece) for piece in pieces(text)]


def pieces(text: str) -> Iterator[str]:
    """Yield the non-blank pieces of a text, at most `PIECES` of them."""
    for start in range(0, min(len(text), PIECES * MESSAGE_LIMIT), MESSAGE_LIMIT):
        piece = text[start : start + MESSAGE_LIMIT]
        if piece.strip():
            yield piece


PROVIDER: Final = HonchoMemory
