"""What the agent is told: history it does not have, recalled memories, instructions it was not given, then the message.

Rules:
- Pure. The transcript is the first block and never the only one. If the history does not fit the agent's limit, its
  oldest messages are left out, never the newest, and a note replaces them; the client is told by a `HistoryCut`.
- Each item is told in its place, whether the request brings it or the store has it. A function call is told with its
  name, id and arguments as they were sent; a result with the name and id of its call, wherever that call is.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from ostler.gateway.model.ask import Ask, Entry, HistoryLine
from ostler.gateway.model.records import MessageRecord, Role
from ostler.pool.prompt import PromptPart, TextPart, size_of
from ostler.pool.provider import Provider
from ostler.wire.json import JsonObject
from ostler.wire.transcript import build_transcript

RESERVE = 1000
"""Characters of the limit that are reserved for the header and the quoting."""
CALL, RESULT, THOUGHT = "function_call", "function_call_output", "reasoning"
ITEMS = frozenset((CALL, RESULT, THOUGHT, "mcp_approval_request"))
"""Items that become lines of their own; all other items are told as the text of their message."""
PLAIN = re.compile(r"[\w.:/-]+")
INSTRUCTIONS = "[instructions] Follow these in every answer of this session:\n{text}\n[end of instructions]"
ROLE_LINES = {Role.USER: "user", Role.ASSISTANT: "assistant", Role.TOOL: "tool", Role.SYSTEM: "assistant"}


def lines_of(
    messages: Sequence[MessageRecord], coming: Sequence[JsonObject] = (), earlier: Sequence[MessageRecord] = ()
) -> list[HistoryLine]:
    """Return stored messages as a transcript. Results of their calls may be among the `coming` items only; calls of
    their results may be in `earlier` messages, which are not told."""
    said = [item for message in (*earlier, *messages) for item in message.items]
    calls = Calls.of([*said, *coming])
    return [line for message in messages for line in message_lines(message, calls)]


def told_entries(
    entries: Sequence[Entry], earlier: Sequence[JsonObject] = (), names: Mapping[str, str] = MappingProxyType({})
) -> list[HistoryLine]:
    """Return the entries that a request brings as a transcript, each item in its place. `names` has functions by call
    id."""
    calls = Calls.of([*earlier, *(item for _, _, item in entries)], names)
    return [line for role, text, item in entries for line in item_lines(role, text, item, calls)]


@dataclass(frozen=True, slots=True)
class Calls:
    """The function calls of a conversation, needed to tell their results."""

    names: Mapping[object, str]
    """Names of functions by call id."""
    answered: frozenset[object]

    @classmethod
    def of(cls, items: Sequence[JsonObject], names: Mapping[str, str] = MappingProxyType({})) -> Self:
        """Return the calls among these items, and those of `names`."""
        found = {item.get("call_id"): str(item.get("name")) for item in items if item.get("type") == CALL}
        return cls(
            found | {call_id: name for call_id, name in names.items() if call_id not in found},
            frozenset(item.get("call_id") for item in items if item.get("type") == RESULT),
        )


def message_lines(message: MessageRecord, calls: Calls) -> list[HistoryLine]:
    """Return a stored message and the calls it made. Its text comes first; the agent's thoughts are not told again,
    unless the message has nothing else."""
    role, apart = Role(message.role), [item for item in message.items if item.get("type") in ITEMS]
    if apart and len(apart) == len(message.items) and all(item.get("type") == THOUGHT for item in apart):
        return [line for item in apart for line in item_lines(role, message.text, item, calls)]
    done = [item for item in apart if item.get("type") != THOUGHT]
    told = [line for item in done for line in item_lines(role, message.text, item, calls)]
    if (role is Role.TOOL and told) or (role is Role.ASSISTANT and not message.text):
        return told
    return [(ROLE_LINES[role], message.text), *told]


def item_lines(role: str, text: str, item: JsonObject, calls: Calls) -> list[HistoryLine]:
    """Return one item as lines; `text` is its text. Free text comes last in a line, so that a reader sees where it
    begins."""
    kind, call_id = item.get("type"), item.get("call_id")
    match kind:
        case "function_call":
            name = f"{plain(item.get('name'))} ({plain(call_id)})"
            called = ("tool", f"called {name} with {item.get('arguments')}")
            # An agent that finds a call open would wait for it or make it again.
            end = [("tool", f"{name} was never answered: the turn ended before")]
            return [called, *(end if call_id not in calls.answered else [])]
        case "function_call_output":
            known = calls.names.get(call_id)
            who = "a call that is not known here" if known is None else plain(known)
            return [("tool", f"{who} ({plain(call_id)}) answered: {text}")]
        case "mcp_approval_request":
            return [("tool", f"asked for permission: {item.get('name')}")]
        case "reasoning":
            thought = thought_of(item)
            return [("assistant", f"[thought] {thought}")] if thought else []
        case _:
            return [(ROLE_LINES.get(Role(role), "user"), text)]


def plain(word: object) -> str:
    """Return a name or an id; quoted if a reader could not see its end."""
    text = str(word)
    return text if PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def thought_of(item: JsonObject) -> str:
    """Return the text of a reasoning item, "" if it is encrypted."""
    parts = [part for name in ("summary", "content") for part in item.get(name) or () if isinstance(part, dict)]
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def compose(
    ask: Ask, before: Sequence[HistoryLine], provider: Provider, *, instructions: str | None, recalled: str = ""
) -> tuple[list[PromptPart], int]:
    """Return the blocks of a prompt, and how many lines of `before` had to be left out."""
    earlier = [*before]
    background = [TextPart(recalled)] if recalled else []
    told = [TextPart(INSTRUCTIONS.format(text=instructions))] if instructions else []
    hint = [TextPart(ask.hint)] if ask.hint else []
    body: list[PromptPart] = [*background, *told, *hint, *ask.parts]
    kept = fitting(earlier, body, provider)
    left_out = len(earlier) - len(kept)
    if left_out:
        kept = [("assistant", cut_note(left_out)), *kept]
    preamble = [TextPart(build_transcript(kept))] if kept else []
    return [*preamble, *body], left_out


def cut_note(left_out: int) -> str:
    """Return the note that replaces lines which were left out."""
    entries = "entry" if left_out == 1 else f"{left_out} entries"
    return f"[the oldest {entries} of this conversation did not fit and can not be seen here]"


def fitting(lines: Sequence[HistoryLine], body: Sequence[PromptPart], provider: Provider) -> list[HistoryLine]:
    """Return the newest lines that fit together with the body."""
    limit = provider.prompt_limit
    if limit is None:
        return list(lines)
    room = limit.size - sum(map(size_of, body)) - RESERVE
    kept: list[HistoryLine] = []
    for role, text in reversed(lines):
        room -= len(text) + len(role) + 8
        if room < 0:
            break
        kept.append((role, text))
    kept.reverse()
    return kept
