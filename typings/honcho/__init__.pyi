"""The part of the Honcho client that `gateway/memory/honcho.py` uses; the package does not say that it is typed."""

import httpx
from honcho.api_types import MessageCreateParams, PeerConfig, PeerContextResponse

class Message: ...

class Peer:
    id: str
    def message(self, content: str) -> MessageCreateParams: ...
    def context(
        self, target: str | None = None, search_query: str | None = None, search_top_k: int | None = None
    ) -> PeerContextResponse: ...

class Session:
    id: str
    def add_messages(self, messages: list[MessageCreateParams]) -> list[Message]: ...
    def delete(self) -> None: ...

class Honcho:
    def __init__(
        self,
        api_key: str | None = None,
        environment: str | None = None,
        base_url: str | None = None,
        workspace_id: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        http_client: httpx.Client | None = None,
    ) -> None: ...
    def peer(self, id: str, *, configuration: PeerConfig | None = None) -> Peer: ...
    def session(
        self, id: str, *, metadata: dict[str, object] | None = None, peers: list[Peer | str] | None = None
    ) -> Session: ...
