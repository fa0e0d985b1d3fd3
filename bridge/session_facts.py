"""What a tool may say about the session it runs in.

The gateway's session context offers it as `facts`; the bridge knows nothing else about sessions.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    session_id: str
    title: str | None = None
    cwd: str | None = None
    provider: str | None = None
    model: str | None = None


@runtime_checkable
class KnowsSession(Protocol):
    @property
    def facts(self) -> SessionFacts: ...
