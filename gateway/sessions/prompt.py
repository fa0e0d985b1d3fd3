"""What the agent is told: history it does not have, what memory recalls, instructions it was not given, then the
message itself.

Rules: pure. The transcript is the first block and never the only one. History that does not fit the agent's limit
loses its oldest messages, never the newest, and says so in their place; the client is told by an event (`CUT`).
"""

from collections.abc import Sequence

from ostler.gateway.records import MessageRecord, Role
from ostler.gateway.sessions.ask import Ask, Line
from ostler.pool.prompt import PromptPart, TextPart, size_of
from ostler.pool.provider import Provider
from ostler.wire.json import JsonObject
from ostler.wire.transcript import build_transcript

RESERVE = 1000
"""Characters of a limit that are left for the header and the quoting."""
RESULT = "function_call_output"
CUT = "ostler/history_cut"
"""Comes once the prompt has left that does not hold the whole conversation; `left_out` says how much is missing."""
TOOLS_LOST = "ostler/tools_lost"
"""Comes once the prompt has left, in the first turn on another seat after the agent of the last one lost its tools."""
INSTRUCTIONS = "[instructions] Follow these in every answer of this session:\n{text}\n[end of instructions]"
ROLE_LINES = {Role.USER: "user", Role.ASSISTANT: "assistant", Role.TOOL: "tool", Role.SYSTEM: "assistant"}


def lines_of(messages: Sequence[MessageRecord], coming: Sequence[JsonObject] = ()) -> list[Line]:
    """Stored messages as a transcript; calls stand next to their results, of which some may only be `coming`.

    A call that nobody ever answered is closed here: an agent that finds it open would wait for it or make it again.
    """
    said = [item for message in messages for item in message.items]
    results: set[object] = {item.get("call_id") for item in [*said, *coming] if item.get("type") == RESULT}
    return [line for message in messages for line in [*message_lines(message), *open_calls(message, results)]]


def open_calls(message: MessageRecord, results: set[object]) -> list[Line]:
    """The end of those calls of a message that have none."""
    calls = [item for item in message.items if item.get("type") == "function_call"]
    left = [call.get("name") for call in calls if call.get("call_id") not in results]
    return [("tool", f"{name} was never answered: the turn ended before") for name in left]


def message_lines(message: MessageRecord) -> list[Line]:
    """The message, and after it the calls it made."""
    role = ROLE_LINES.get(Role(message.role), "user")
    calls = [item for item in message.items if item.get("type") == "function_call"]
    called = [("tool", f"called {call.get('name')} with {call.get('arguments')}") for call in calls]
    asked = [item for item in message.items if item.get("type") == "mcp_approval_request"]
    called += [("tool", f"asked for permission: {item.get('name')}") for item in asked]
    return called if called and not message.text else [(role, message.text), *called]


def compose(
    ask: Ask, history: Sequence[Line], provider: Provider, *, fresh: bool, instructions: str | None, recalled: str = ""
) -> tuple[list[PromptPart], int]:
    """The blocks of a prompt, and how many lines of the history had to be left out."""
    earlier = [*history] if fresh else []
    earlier += [(role, text) for role, text, _ in ask.preface]
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
    """In place of what is missing."""
    entries = "entry" if left_out == 1 else f"{left_out} entries"
    return f"[the oldest {entries} of this conversation did not fit and can not be seen here]"


def fitting(lines: Sequence[Line], body: Sequence[PromptPart], provider: Provider) -> list[Line]:
    """The newest lines that fit beside the body."""
    limit = provider.prompt_limit
    if limit is None:
        return list(lines)
    room = limit.size - sum(map(size_of, body)) - RESERVE
    kept: list[Line] = []
    for role, text in reversed(lines):
        room -= len(text) + len(role) + 8
        if room < 0:
            break
        kept.append((role, text))
    kept.reverse()
    return kept
