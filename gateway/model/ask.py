"""What one request wants of a session. Values only: every face makes one, the session runs it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model.permits import PermissionRule
from ostler.pool.keys import TransportKey
from ostler.pool.prompt import PromptPart
from ostler.wire.json import JsonObject

HistoryLine = tuple[str, str]
"""A message of a transcript: role and text."""
Entry = tuple[str, str, JsonObject]
"""(role, text, item): something that was said, as it came in."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One message of a user and how it is to be answered."""

    key: TransportKey
    parts: tuple[PromptPart, ...]
    text: str
    """The words of it: for the transcript and for search."""
    items: tuple[JsonObject, ...]
    """As it is stored."""
    preface: tuple[Entry, ...] = ()
    """Messages that come with the request and before it, unknown to the session."""
    history: tuple[HistoryLine, ...] | None = None
    """The conversation to answer in, instead of the session's own. Nothing of it is stored."""
    instructions: str | None = None
    tools: tuple[JsonObject, ...] = ()
    """Functions of the client, as MCP tool definitions."""
    hint: str = ""
    """What must be said about the tools, where the request insists on one."""
    parallel_calls: bool = True
    witnessed: bool = True
    """Whether it is a person's question. What the gateway itself asks (for a summary) is nobody's to remember."""
    remembered: bool = True
    """Whether the conversation has a memory: what it recalls, and its tools."""
    rule: PermissionRule | None = None
    """What the agent hears when it asks for permission; None: what the house says for the model."""
    hands_over: bool = False
    """Whether a question of the agent ends the present answer, so that the next request brings the decision. Otherwise
    the decision comes while the turn goes on, by `Session.answer_permission`."""
    again: int | None = None
    """The id of the stored message that is asked once more: what followed it leaves the transcript, it stays."""
    answers: tuple[tuple[str, str], ...] = ()
    """(call id, text): results in the preface that answer calls of the stored conversation; each is taken once."""
    named: tuple[tuple[str, str], ...] = ()
    """(call id, function): calls of the stored conversation that the preface has results of."""

    @property
    def memorable(self) -> bool:
        """Whether memory is asked about it and told of it."""
        return self.remembered and self.witnessed and bool(self.text)


@dataclass(frozen=True, slots=True)
class CallOutput:
    """What the client answered to one function call."""

    call_id: str
    text: str
    item: JsonObject
    content: Sequence[JsonObject]
    """As MCP content blocks."""
    refused: bool = False
    """The answer to a question for permission, and it is a no."""
    always: bool = False
    """It is a yes for the whole session."""
