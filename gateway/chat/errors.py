"""The errors by which a chat surface refuses a request. Nothing was changed."""

from ostler.gateway.model.errors import RequestRefused


class BadKey(RequestRefused):
    """A text that is not a valid session key."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"not a session key: {why}")


class EmptyMessage(RequestRefused):
    """A message without text and attachments."""

    def __init__(self) -> None:
        super().__init__("the message is empty: send a text, an attachment, or both")


class Busy(RequestRefused):
    """A turn is running, and the request would change the transcript it works on."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__("a turn is running in this session; wait for its answer, or end it with /stop")
