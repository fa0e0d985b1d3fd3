"""Memory in a Honcho server (`ostler[honcho]`): a Honcho session for each of our sessions, a peer for each user, and
one for the assistant, about which nothing is learned.

Rules:
- Each turn is sent when it ends. Then Honcho's knowledge of the user is fetched for the next turn of the session: only
  the first turn waits for it.
- What was fetched belongs to one session and is dropped at every switch and rewind.
- An erased session is deleted in Honcho, with what was concluded from it.
- Peers keep users apart: only the user's own peer is asked.
- `initialize` imports the client, so that only its users pay for the import.
"""

from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Final

from ostler.gateway.memory.outside import name_for
from ostler.gateway.memory.provider import MemoryHome, MemoryProvider

if TYPE_CHECKING:
    import httpx
    from honcho import Honcho, Peer, Session

ASSISTANT: Final = "ostler-assistant"
MOST_KEPT: Final = 1000
MESSAGE_LIMIT: Final = 20_000
"""Characters of one message; longer texts are sent in pieces."""
PIECES: Final = 20
QUESTION_LIMIT: Final = 2000
FACTS: Final = 10
RETRIES: Final = 1


class RecentlyKept:
    """A bounded map that drops the oldest entry. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._things: OrderedDict[str, str] = OrderedDict()

    def keep(self, name: str, thing: str) -> None:
        with self._lock:
            self._things[name] = thing
            self._things.move_to_end(name)
            if len(self._things) > MOST_KEPT:
                self._things.popitem(last=False)

    def get(self, name: str) -> str | None:
        with self._lock:
            return self._things.get(name)

    def take(self, name: str) -> str | None:
        with self._lock:
            return self._things.pop(name, None)


class HonchoMemory(MemoryProvider):
    """Sends the turns of all users, each to the user's own peer."""

    _client: "Honcho"
    _http: "httpx.Client"

    def __init__(self, home: MemoryHome) -> None:
        self._settings = home.settings.honcho
        self._peer = lru_cache(MOST_KEPT)(self._make_peer)
        self._session = lru_cache(MOST_KEPT)(self._make_session)
        self._fetched = RecentlyKept()
        self._parents = RecentlyKept()

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
        self._http.close()

    def prefetch(self, question: str, *, session_id: str, user: str) -> str:
        fetched = self._fetched.take(session_id)
        return self._known(question, user) if fetched is None else fetched

    def queue_prefetch(self, question: str, *, session_id: str, user: str) -> None:
        self._fetched.keep(session_id, self._known(question, user))

    def sync_turn(self, question: str, answer: str, *, session_id: str, user: str) -> None:
        said = ((name_for("user", user), question), (ASSISTANT, answer))
        spoken = [self._peer(name).message(piece) for name, text in said for piece in pieces(text)]
        if spoken:
            self._session(session_id, user).add_messages(spoken)

    def on_session_erased(self, session_id: str, *, user: str) -> None:
        del user
        self._fetched.take(session_id)
        self._client.session(name_for("", session_id)).delete()

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
        context = self._peer(name_for("user", user)).context(
            search_query=question[:QUESTION_LIMIT] or None, search_top_k=FACTS
        )
        return "\n".join([*(context.peer_card or ()), *(context.representation or "").splitlines()])

    def _make_peer(self, name: str) -> "Peer":
        from honcho.api_types import PeerConfig  # noqa: PLC0415 - see `initialize`

        about = PeerConfig(observe_me=False) if name == ASSISTANT else None
        return self._client.peer(name, configuration=about)

    def _make_session(self, session_id: str, user: str) -> "Session":
        about: dict[str, object] = {"session_id": session_id}
        if self.parent(session_id):
            about["parent_session_id"] = self.parent(session_id)
        peers: list[Peer | str] = [self._peer(name_for("user", user)), self._peer(ASSISTANT)]
        return self._client.session(name_for("", session_id), metadata=about, peers=peers)


def pieces(text: str) -> Iterator[str]:
    """Yield the non-blank pieces of a text, at most `PIECES` of them."""
    for start in range(0, min(len(text), PIECES * MESSAGE_LIMIT), MESSAGE_LIMIT):
        piece = text[start : start + MESSAGE_LIMIT]
        if piece.strip():
            yield piece


PROVIDER: Final = HonchoMemory
