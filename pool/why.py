"""Why a key is as warm as it is, as plain data: the targets explained, and the last claims answered.

Rules: as for a snapshot: values only, JSON-ready; no token, no prompt, no session.
"""

from dataclasses import dataclass, fields
from typing import Any

from ostler.pool.core.reasons import KeyReasons
from ostler.pool.snapshot import plain_value


@dataclass(frozen=True, slots=True)
class ClaimView:
    """How one claim was answered, `ago` seconds before now."""

    ago: float
    answer: str
    warmth: str
    miss: str
    waited: float
    queue: float
    spawn: float
    session_new: float
    own_process: bool
    text: str


@dataclass(frozen=True, slots=True)
class Why:
    """One key. `reasons` is None if the pool holds nothing of it now, though it may remember claims."""

    key: str
    provider: str
    model: str
    cwd: str
    enabled: bool
    reasons: KeyReasons | None
    claims: tuple[ClaimView, ...]
    trouble: str = ""
    """Why no process of the key can be started now; empty if no obstacle is known."""

    def as_json(self) -> dict[str, Any]:
        """Nested dicts, lists, strings and numbers."""
        return {field.name: plain_value(getattr(self, field.name)) for field in fields(self)}
