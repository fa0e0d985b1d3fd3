"""To be written."""

from dataclasses import dataclass

from ostler.bridge.session_facts import SessionFacts


@dataclass(frozen=True, slots=True)
class SessionContext:
    """For whom a tool is called."""

    facts: SessionFacts
    owner: str
    """The name of the API key, or the user of a chat face; "" where there is none."""

    @property
    def key(self) -> str:
        """What the patterns in `sessions` of a tool server are held against."""
        return f"{self.owner}:{self.facts.session_id}"
