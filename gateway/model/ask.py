"""What one request wants of a session. Values only: every surface makes an `Ask`, and the session runs it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model.permits import PermissionRule
from ostler.pool.keys import TransportKey
from ostler.pool.prompt import PromptPart
from ostler.wire.json import JsonObject

HistoryLine = tuple[str, str]
"""One message of a transcript: role and text."""
Entry = tuple[str, str, JsonObject]
"""One message as it came in: role, text and item."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One message of a user, and how it is to be answered."""

    key: TransportKey
    parts: tuple[PromptPart, ...]
    text: str
    """The text of the message, for the transcript and for search."""
    items: tuple[JsonObject, ...]
    """The message as it is stored."""
    preface: tuple[Entry, ...] = ()
    """Messages that come with the request and before its question, which the session does not have yet."""
    history: tuple[HistoryLine, ...] | None = None
    """The conversation to answer in, instead of the session's own. None of it is stored."""
    instructions: str | None = None
    tools: tuple[JsonObject, ...] = ()
    """The client's functions, as MCP tool definitions."""
    hint: str = ""
    """What to tell the agent about the tools if the request insists on one."""
    parallel_calls: bool = True
    witnessed: bool = True
    """Whether observers hear of it. False for what the gateway itself asks (for a summary): it is no user's
    question."""
    remembered: bool = True
    """Whether the conversation has a memory: recalled text and memory tools."""
    rule: PermissionRule | None = None
    """The level for the agent's permission requests; None: the configured level of the model."""
    hands_over: bool = False
    """Whether a question of the agent ends the present answer, so that the next request brings the decision. Otherwise
    the decision comes while the turn goes on, by `Session.answer_permission`."""
    again: int | None = None
    """The id of the stored message that is asked again. It stays; what followed it leaves the transcript."""
    answers: tuple[tuple[str, str], ...] = ()
    """(call id, text): results in the preface that answer calls of the stored conversation; each is accepted once."""
    named: tuple[tuple[str, str], ...] = ()
    """(call id, function): calls of the stored conversation that have results in the preface."""

    @property
    def size(self) -> int:
        """The characters of the question and of what came with it."""
        return len(self.text) + sum(len(text) for _, text, _ in self.preface)

    @property
    def memorable(self) -> bool:
        """Whether memory takes part: it recalls for the question and is told of the answer."""
        return self.remembered and self.witnessed and bool(self.text)


@dataclass(frozen=True, slots=True)
class CallOutput:
    """A client's answer to one function call."""

    call_id: str
    text: str
    item: JsonObject
    content: Sequence[JsonObject]
    """The output as MCP content blocks."""
    refused: bool = False
    """The call was a permission request, and the answer is no."""
    always: bool = False
    """The call was a permission request, and the answer is yes for the whole session."""
