"""Whose session calls a tool: what the gateway tells the bridge for each binding."""

from dataclasses import dataclass

from ostler.bridge.session_facts import SessionFacts


@dataclass(frozen=True, slots=True)
class SessionContext:
    """The session that calls a tool, and its owner."""

    facts: SessionFacts
    owner: str
    """The name of the API key, or the user of a chat surface; "" if there is none."""

    @property
    def key(self) -> str:
        """The text that the `sessions` patterns of a tool server are matched against."""
        return f"{self.owner}:{self.facts.session_id}"
