"""Names for things, unguessable: whoever knows the id of a response or a call may use it."""

from collections.abc import Callable


class Ids:
    """The source of randomness is handed in."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self.random_bytes = random_bytes

    def make(self, prefix: str) -> str:
        """`resp_...`, `msg_...`, `call_...`"""
        return f"{prefix}_{self.random_bytes(16).hex()}"
