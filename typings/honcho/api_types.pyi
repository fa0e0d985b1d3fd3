class PeerConfig:
    def __init__(self, *, observe_me: bool | None = None) -> None: ...

class MessageCreateParams: ...

class PeerContextResponse:
    representation: str | None
    peer_card: list[str] | None
