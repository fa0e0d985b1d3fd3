"""What a chat face can say no with. Nothing was changed."""

from ostler.gateway.model.errors import RequestRefused


class BadKey(RequestRefused):
    """A session key that cannot be one."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"not a session key: {why}")


class EmptyMessage(RequestRefused):
    """Nothing was said."""

    def __init__(self) -> None:
        super().__init__("the message is empty: send a text, an attachment, or both")


class Busy(RequestRefused):
    """A turn runs, and what was asked for would change what the turn is about."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__("a turn is running in this session; wait for its answer, or end it with /stop")
