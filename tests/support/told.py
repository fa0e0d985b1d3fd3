"""One conversation with everything in it that a client may send, in both dialects, and what an agent is to be told
of it, written by hand: nothing here is made by the code under test."""

import re
from typing import Any

from ostler.wire.transcript import END, HEADER, parse_transcript

PICTURE = "data:image/png;base64,iVBORw0KGgo="
CITY = '{"city": "Z\u00fcrich \u2614"}'
NO_JSON = "not json {\n(call_t) with"


def conversation(mark: str) -> list[dict[str, Any]]:
    """As items of the Responses API, up to the question. Results come in another order than their calls, one belongs to
    no call, one call has no result, arguments need not be JSON, results and messages may be lists of parts."""
    return [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": mark}, {"type": "input_image", "image_url": PICTURE}],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "two calls"}]},
        {"type": "function_call", "call_id": "call_w", "name": "get_weather", "arguments": CITY},
        {"type": "function_call", "call_id": "call_t", "name": "get_time", "arguments": NO_JSON},
        {"type": "function_call_output", "call_id": "call_t", "output": "noon"},
        {
            "type": "function_call_output",
            "call_id": "call_w",
            "output": [
                {"type": "input_text", "text": "sunny\nand \U0001f31e"},
                {"type": "input_image", "image_url": PICTURE},
            ],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "noon and sunny"}]},
        {"type": "function_call_output", "call_id": "call lost", "output": "from nowhere"},
        {"role": "user", "content": "and now?"},
        {"type": "function_call", "call_id": "call_o", "name": "get_time", "arguments": "{}"},
        {"type": "message", "role": "assistant", "content": "I do not know"},
    ]


def told(mark: str) -> list[tuple[str, str]]:
    """What an agent is told of it."""
    return [
        ("user", f"{mark}\n[image]"),
        ("assistant", "[thought] two calls"),
        ("tool", f"called get_weather (call_w) with {CITY}"),
        ("tool", f"called get_time (call_t) with {NO_JSON}"),
        ("tool", "get_time (call_t) answered: noon"),
        ("tool", "get_weather (call_w) answered: sunny\nand \U0001f31e\n[image]"),
        ("assistant", "noon and sunny"),
        ("tool", 'a call that is not known here ("call lost") answered: from nowhere'),
        ("user", "and now?"),
        ("tool", "called get_time (call_o) with {}"),
        ("tool", "get_time (call_o) was never answered: the turn ended before"),
        ("assistant", "I do not know"),
    ]


def messages(mark: str) -> list[dict[str, Any]]:
    """The same as chat messages, which have no reasoning."""

    def call(ident: str, name: str, arguments: str) -> dict[str, Any]:
        return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}

    picture = {"type": "image_url", "image_url": {"url": PICTURE}}
    calls = [call("call_w", "get_weather", CITY), call("call_t", "get_time", NO_JSON)]
    sunny = [{"type": "text", "text": "sunny\nand \U0001f31e"}, picture]
    return [
        {"role": "user", "content": [{"type": "text", "text": mark}, picture]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_t", "content": "noon"},
        {"role": "tool", "tool_call_id": "call_w", "content": sunny},
        {"role": "assistant", "content": "noon and sunny"},
        {"role": "tool", "tool_call_id": "call lost", "content": "from nowhere"},
        {"role": "user", "content": "and now?"},
        {"role": "assistant", "content": None, "tool_calls": [call("call_o", "get_time", "{}")]},
        {"role": "assistant", "content": "I do not know"},
    ]


def told_of_messages(mark: str) -> list[tuple[str, str]]:
    """What an agent is told of those."""
    return [line for line in told(mark) if not line[1].startswith("[thought]")]


def lines_in(text: str) -> list[tuple[str, str]]:
    """The earlier conversation that a text tells, wherever in it that stands."""
    found = re.search(f"{re.escape(HEADER)}.*?{re.escape(END)}", text, re.DOTALL)
    return [] if found is None else parse_transcript(found[0]) or []
