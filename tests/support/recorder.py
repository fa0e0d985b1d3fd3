"""An observer that records what it is told, and a wall clock that tests set."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ostler.gateway.model.observers import SwitchReason
from ostler.gateway.model.records import MessageRecord

Heard = tuple[str, ...]


@dataclass
class Wall:
    """A clock on the wall."""

    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class RecordingObserver:
    """Implements `ConversationObserver`."""

    heard: list[Heard] = field(default_factory=list)
    transcripts: dict[str, list[str]] = field(default_factory=dict)
    deaf_to: set[str] = field(default_factory=set)
    """Sessions whose end is an error."""
    raised: int = 0

    async def recall(self, session_id: str, question: str) -> str:
        return ""

    def turn_ended(self, session_id: str, question: str, answer: str) -> None:
        self.heard.append(("turn", session_id, question))

    def session_ended(self, session_id: str, transcript: Sequence[MessageRecord]) -> None:
        if session_id in self.deaf_to:
            self.raised += 1
            raise RuntimeError("a witness that cannot bear it")
        self.heard.append(("end", session_id))
        self.transcripts[session_id] = [message.text for message in transcript]

    def session_switched(self, session_id: str, *, parent_id: str, reason: SwitchReason) -> None:
        self.heard.append(("switch", session_id, parent_id, reason.value))

    def session_rewound(self, session_id: str) -> None:
        self.heard.append(("rewound", session_id))

    def about(self, *kinds: str) -> list[Heard]:
        """What was heard of these kinds."""
        return [heard for heard in self.heard if heard[0] in kinds]
