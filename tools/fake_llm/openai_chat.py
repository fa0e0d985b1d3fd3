"""OpenAI chat completions: `chat/completions`."""

import json
from collections.abc import Iterator

from ostler.wire.json import JsonObject
from tools.fake_llm.dialect import Dialect, Event, Reply, flat, texts
from tools.fake_llm.script import Call, Model, Request, Result, Said, Tool, User

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class ChatReply(Reply):
    def chunk(self, delta: JsonObject, finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return Event({**self.head("chat.completion.chunk"), "choices": [choice]})

    def head(self, kind: str) -> JsonObject:
        return {"id": f"chatcmpl-{self.ident}", "object": kind, "created": 0, "model": self.request.model}

    def calls(self) -> list[JsonObject]:
        if self.call is None:
            return []
        function = {"name": self.call.tool.name, "arguments": json.dumps(self.call.arguments)}
        return [{"index": 0, "id": f"call_{self.ident}", "type": "function", "function": function}]

    @property
    def finish(self) -> str:
        if self.call:
            return "tool_calls"
        return "length" if self.limited else "stop"

    def open(self) -> Iterator[Event]:
        yield self.chunk({"role": "assistant", "content": ""})

    def on_text(self, piece: str) -> Iterator[Event]:
        yield self.chunk({"content": piece})

    def on_call(self, call: Call) -> Iterator[Event]:
        yield self.chunk({"tool_calls": self.calls()})

    def close(self) -> Iterator[Event]:
        yield self.chunk({}, self.finish)
        yield Event({**self.head("chat.completion.chunk"), "choices": [], "usage": USAGE})
        yield Event("[DONE]")

    def whole(self) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": self.said or None}
        if self.call:
            message["tool_calls"] = self.calls()
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return {**self.head("chat.completion"), "choices": [choice], "usage": USAGE}


class OpenAIChat(Dialect):
    reply = ChatReply

    def serves(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def read(self, path: str, body: JsonObject) -> Request:
        return Request(
            model=body.get("model", ""),
            said=[said for message in body.get("messages") or [] for said in read_message(message)],
            tools=[Tool(tool["function"]["name"]) for tool in body.get("tools") or []],
            stream=bool(body.get("stream")),
        )


def read_message(message: JsonObject) -> Iterator[Said]:
    match message.get("role"):
        case "user":
            yield from map(User, texts(message.get("content")))
        case "tool":
            yield Result(flat(message.get("content")))
        case "assistant":
            yield Model()
        case _:
            return
