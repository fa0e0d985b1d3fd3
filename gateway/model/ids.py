"""Ids of responses, messages and calls.

Rule: an id cannot be guessed, because a client that knows the id of a response or a call may use it.
"""

from collections.abc import Callable


class Ids:
    """Makes ids from a source of randomness that the caller passes in."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self.random_bytes = random_bytes

    def make(self, prefix: str) -> str:
        """Return a new id, such as `resp_...`, `msg_...` or `call_...`."""
        return f"{prefix}_{self.random_bytes(16).hex()}"
