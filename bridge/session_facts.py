"""The facts that a tool may tell about its session.

The gateway's session context offers them as `facts`; the bridge knows nothing else about sessions.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """Facts about one session; None: unknown."""

    session_id: str
    title: str | None = None
    cwd: str | None = None
    provider: str | None = None
    model: str | None = None


@runtime_checkable
class KnowsSession(Protocol):
    """A session context that offers `SessionFacts`."""

    @property
    def facts(self) -> SessionFacts: ...
