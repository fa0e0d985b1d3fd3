"""The part of the Hindsight client that `gateway/memory/hindsight.py` uses. Its 700 generated models are typed too, and
would be checked with us."""

from collections.abc import Sequence
from typing import Literal

class RecallResult:
    id: str
    text: str

class RecallResponse:
    results: list[RecallResult]

class RetainResponse:
    success: bool

class Hindsight:
    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        timeout: float = 300.0,
        user_agent: str | None = None,
        max_attempts: int = 3,
    ) -> None: ...
    async def aretain_batch(
        self,
        bank_id: str,
        items: Sequence[dict[str, object]],
        document_id: str | None = None,
        document_tags: list[str] | None = None,
        retain_async: bool = False,
        operation_id: str | None = None,
    ) -> RetainResponse: ...
    async def arecall(
        self,
        bank_id: str,
        query: str,
        types: list[str] | None = None,
        max_tokens: int = 4096,
        budget: Literal["low", "mid", "high"] = "mid",
    ) -> RecallResponse: ...
    async def aclose(self) -> None: ...
